"""What every test has: directories for sockets and caches that the user who runs the tests does not use,
signals that are not ignored, and coverage that is measured at a bearable cost.
"""

from __future__ import annotations

import inspect
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import coverage
import pytest

from paddock import installation
from paddock.transport.runtime_directory import VARIABLE

# A shell that runs the suite in the background ignores SIGINT and SIGQUIT for it, nohup(1) SIGHUP, and every
# program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
    signal.signal(_number, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory() -> Iterator[str]:
    # Short: a socket's path has 107 bytes at most.
    # What a test has killed may still be clearing away in there.
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        os.environ[VARIABLE] = directory
        yield directory


@pytest.fixture(autouse=True)
def same_descriptor_limit() -> Iterator[None]:
    """Hold a test to the limit of open files, which every later test in its process has too."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    after = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert after == before


@pytest.fixture(autouse=True)
def same_files_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process forget which settings and modules a test obeys: every later sandbox protects them."""
    monkeypatch.setattr(installation, "_obeyed", dict(installation._obeyed))
    monkeypatch.setattr(installation, "_searched", list(installation._searched))


# ---------------------------------------------------------------- coverage

MEASURED_EXAMPLES = 10
"""Of each test by Hypothesis: to trace all hundred costs as much again as to run them, for few more lines."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Measure what imports execute in the first process only: it is the same in all."""
    measurement = coverage.Coverage.current()
    if measurement is None or os.environ.get("PYTEST_XDIST_WORKER") in (None, "gw0"):
        return (yield)
    with _unmeasured(measurement):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure no test that is marked so, and the first examples of a test by Hypothesis only."""
    measurement = coverage.Coverage.current()
    test = getattr(item, "obj", None)
    by_hypothesis = getattr(test, "hypothesis", None)
    machine = getattr(test, "_hypothesis_state_machine_class", None)
    is_marked = item.get_closest_marker("unmeasured") is not None
    if measurement is None or not (by_hypothesis or machine or is_marked):
        return (yield)
    with _unmeasured(measurement), pytest.MonkeyPatch.context() as patch:
        if by_hypothesis:
            example = _first_measured(measurement, by_hypothesis.inner_test)
            patch.setattr(by_hypothesis, "inner_test", example)
        if machine:
            _measure_first(measurement, machine, patch)
        return (yield)


@contextmanager
def _unmeasured(measurement: coverage.Coverage) -> Iterator[None]:
    measurement.stop()
    try:
        yield
    finally:
        measurement.start()


@contextmanager
def _measured(measurement: coverage.Coverage) -> Iterator[None]:
    measurement.start()
    try:
        yield
    finally:
        measurement.stop()


def _first_measured(measurement: coverage.Coverage, example: Callable[..., Any]) -> Callable[..., Any]:
    """Return the test of one example, measured without what makes the examples."""
    left = MEASURED_EXAMPLES

    async def finish(running: Coroutine[Any, Any, None]) -> None:
        with _measured(measurement):
            await running

    def run(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            return example(*arguments, **named)
        if inspect.iscoroutinefunction(example):
            return finish(example(*arguments, **named))
        with _measured(measurement):
            return example(*arguments, **named)

    return run


def _measure_first(measurement: coverage.Coverage, machine: Any, patch: pytest.MonkeyPatch) -> None:
    """Measure the first instances of a state machine, each from its beginning to its end."""
    begin, end = machine.__init__, machine.teardown
    left = MEASURED_EXAMPLES

    def measured_begin(self: object) -> None:
        if left > 0:
            measurement.start()
        begin(self)

    def measured_end(self: object) -> None:
        nonlocal left
        end(self)
        if left > 0:
            measurement.stop()
        left -= 1

    patch.setattr(machine, "__init__", measured_begin)
    patch.setattr(machine, "teardown", measured_end)

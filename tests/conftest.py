"""What every test has: directories for sockets and caches that the user who runs the tests does not use,
signals that are not ignored, and coverage that is measured at a bearable cost.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
from collections.abc import Generator, Iterator
from typing import Any

import coverage
import pytest

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


MEASURED_EXAMPLES = 10
"""Of each test by Hypothesis: to trace all hundred costs as much again as to run them, for few more lines."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the first examples of a test by Hypothesis only."""
    measurement = coverage.Coverage.current()
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if measurement is None or handle is None:
        return (yield)
    inner_test = handle.inner_test
    left = MEASURED_EXAMPLES

    def counted(*arguments: Any, **named: Any) -> object:
        nonlocal left
        if left == 0:
            measurement.stop()
        left -= 1
        return inner_test(*arguments, **named)

    handle.inner_test = counted
    try:
        return (yield)
    finally:
        handle.inner_test = inner_test
        if left < 0:
            measurement.start()

"""Janitors as processes: to be killed by tests, and waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.sandbox.storm import janitors

DEADLINE_S = 20.0


def kill_janitors(runtime: Path) -> None:
    """Kill the janitors of this process, and wait until the kernel has dropped their locks."""
    for pid in janitors(runtime):
        os.kill(pid, signal.SIGKILL)
        # Whoever has started it buries it.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@contextmanager
def janitors_stopped(runtime: Path) -> Iterator[None]:
    """Stop the janitors of this process for the time of the block; they read nothing meanwhile."""
    pids = list(janitors(runtime))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    yield
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait until a condition holds, and fail if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)

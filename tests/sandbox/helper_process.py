"""Janitors as processes: to be killed by tests, and waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.sandbox.storm import janitors

DEADLINE_S = 20.0


def kill_janitors(runtime: Path) -> None:
    for pid in janitors(runtime):
        os.kill(pid, signal.SIGKILL)


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)

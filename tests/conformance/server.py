"""Servers to replay against: one process for each set of flags, or one that runs already."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager

import pytest

STOP_TIMEOUT_S = 20.0
"""Longer than a server's grace period for its processes."""


class Servers(AbstractContextManager["Servers"]):
    """Starts `paddock serve` as it is needed and stops it at the end of the block."""

    def __init__(self, running_url: str | None = None) -> None:
        self._running_url = running_url
        self._started: dict[tuple[str, ...], tuple[subprocess.Popen[str], str]] = {}

    def url(self, flags: tuple[str, ...] = ()) -> str:
        """The address of a server with these flags. Skips the test if they can't be had."""
        if self._running_url is not None:
            if flags:
                pytest.skip(f"needs a server that was started with {' '.join(flags)}")
            return self._running_url
        if flags not in self._started:
            self._started[flags] = self._start(flags)
        return self._started[flags][1]

    def __exit__(self, *_: object) -> None:
        for process, _url in self._started.values():
            process.terminate()
        for process, _url in self._started.values():
            with process:
                process.wait(STOP_TIMEOUT_S)

    @staticmethod
    def _start(flags: tuple[str, ...]) -> tuple[subprocess.Popen[str], str]:
        argv = [sys.executable, "-P", "-m", "paddock", "serve", "--listen", "ws://127.0.0.1:0", *flags]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            with process:
                status = process.wait(STOP_TIMEOUT_S)
            pytest.fail(f"{' '.join(argv)} ended with status {status} before it listened")
        return process, url

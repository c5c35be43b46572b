"""`paddock serve` as a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.sandbox.host.candidate import BUNDLED

STOP_TIMEOUT_S = 20.0
"""Longer than a server's grace period for its processes."""


class ServerProcess:
    """A running server; its log can be read when it has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.pid = process.pid
        self.url = process.stdout.readline().strip()

    def next_line(self) -> str:
        """The next line that it writes to standard error."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def stop(self) -> str:
        """End the server and give what it wrote to standard error."""
        self._process.terminate()
        return self._process.communicate(timeout=STOP_TIMEOUT_S)[1]


@contextmanager
def serving(*flags: str, env: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """A server for the time of the block, with `env` added to its environment."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "paddock", "serve", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        # An init that another test starts continues its whole group at its end: a stopped server stays so.
        process_group=0,
    ) as process:
        try:
            yield ServerProcess(process)
        finally:
            process.kill()


def without_bubblewrap() -> dict[str, str]:
    """Return variables for a program that is to find no bubblewrap, and so makes no sandboxes."""
    if Path(BUNDLED).exists():
        # `make bwrap` or `make release` has put it there.
        pytest.skip("a bubblewrap is bundled")
    return {"PATH": "/nonexistent"}


def refused(*flags: str) -> tuple[int, str]:
    """The status and the message of a server that does not start."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "paddock", "serve", *flags],
        capture_output=True,
        text=True,
        timeout=STOP_TIMEOUT_S,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr

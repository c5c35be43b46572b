"""The output streams of a process."""

from __future__ import annotations

from enum import StrEnum


class Stream(StrEnum):
    """Where a chunk of output came from. A terminal merges stdout and stderr."""

    STDOUT = "stdout"
    STDERR = "stderr"
    PTY = "pty"

"""What ended a process."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What ended a process, as far as that is certain."""

    EXIT = "exit"
    """It ended by itself."""

    SIGNAL = "signal"
    """A signal, from wherever it came."""

    CPU = "cpu"
    """It used up the processor time that its profile gives it."""

    WALL = "wall"
    """The time that its profile gives it was over."""

    TERMINATED = "terminated"
    """Somebody had it ended, or its session or the server ended."""

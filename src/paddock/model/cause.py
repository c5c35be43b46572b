"""What ended a process."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What ended a process, as far as that is certain.

    Memory is not among them: the kernel refuses what is too much, and tells nobody but the program.
    """

    EXIT = "exit"
    """It ended by itself."""

    SIGNAL = "signal"
    """A signal, from wherever it came."""

    CPU = "cpu"
    """It used up the processor time that its profile gives it."""

    WALL = "wall"
    """The time that its profile gives it was over."""

    PROCESSES = "processes"
    """It failed, and at that moment had as many processes as its profile allows: none could be started."""

    TERMINATED = "terminated"
    """Somebody had it ended, or its session or the server ended."""

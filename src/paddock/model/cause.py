"""What ended a process."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """What ended a process. A limit is only named if there is evidence; see `sandbox.exhaustion`."""

    EXIT = "exit"
    """It ended by itself."""

    SIGNAL = "signal"
    """A signal, from wherever it came."""

    MEMORY = "memory"
    """It ran out of the memory that its profile grants: it said so, or crashed with all of it in use."""

    CPU = "cpu"
    """It used up the processor time that its profile grants."""

    WALL = "wall"
    """The time that its profile grants was over."""

    PROCESSES = "processes"
    """It failed because its profile lets it have no more processes or threads, and said so."""

    BREACH = "breach"
    """Somebody outside took away what kept it from a path that its profile denies or protects."""

    TERMINATED = "terminated"
    """A client or operator ended it, or its session or the server ended."""

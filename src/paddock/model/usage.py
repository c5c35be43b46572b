"""What a process has used."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True):
    """What a process and the descendants that it waited for have used."""

    wall_s: float
    """Time from its start to its end."""
    user_s: float
    """Processor time in programs."""
    system_s: float
    """Processor time in the kernel."""
    peak_memory_bytes: int
    """The most memory that one of them had."""

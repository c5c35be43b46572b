"""What a process has used, in the form that clients with extensions receive."""

from __future__ import annotations

from paddock.model import usage as model
from paddock.protocol.structure import Result


class Usage(Result, frozen=True, kw_only=True):
    """What a process and the descendants that it waited for have used."""

    wall_ms: int
    """Time from its start to its end."""
    user_ms: int
    """Processor time in programs."""
    system_ms: int
    """Processor time in the kernel."""
    peak_memory_bytes: int
    """The most memory that one of them had."""


def encode_usage(usage: model.Usage) -> Usage:
    """Encode what a process has used."""
    return Usage(
        wall_ms=round(usage.wall_s * 1000),
        user_ms=round(usage.user_s * 1000),
        system_ms=round(usage.system_s * 1000),
        peak_memory_bytes=usage.peak_memory_bytes,
    )


def decode_usage(usage: Usage) -> model.Usage:
    """Decode what a process has used."""
    return model.Usage(
        wall_s=usage.wall_ms / 1000,
        user_s=usage.user_ms / 1000,
        system_s=usage.system_ms / 1000,
        peak_memory_bytes=usage.peak_memory_bytes,
    )

"""Lists what each version of the kernel's Landlock can enforce. Pure: the caller gives the ABI."""

from __future__ import annotations

from enum import IntFlag
from functools import cache
from typing import Final

NEEDED_ABI: Final = 2
"""Before this ABI (Linux 5.19) no file could be moved or linked to another directory, whatever the rules."""

COMPLETE_ABI: Final = 6
"""From this ABI on (Linux 6.12) everything below is enforced."""


class Right(IntFlag):
    """Rights on files that change something, and the ABI that brought them (linux/landlock.h)."""

    WRITE_FILE = 1 << 1
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


class Port(IntFlag):
    """Rights on TCP ports."""

    BIND_TCP = 1 << 0
    CONNECT_TCP = 1 << 1


class Scope(IntFlag):
    """What a command is kept from doing to processes outside."""

    ABSTRACT_UNIX_SOCKET = 1 << 0
    SIGNAL = 1 << 1


_BROUGHT_LATER: Final = {Right.REFER: 2, Right.TRUNCATE: 3, Right.IOCTL_DEV: 5}
PORTS_ABI: Final = 4
SCOPES_ABI: Final = 6


@cache
def rights_of(abi: int) -> Right:
    """Return every right that an ABI knows; none before Landlock."""
    if abi < 1:
        return Right(0)
    known = Right(0)
    for right in Right:
        if _BROUGHT_LATER.get(right, 1) <= abi:
            known |= right
    return known


def missing_from(abi: int) -> tuple[str, ...]:
    """Return what a newer kernel would enforce in the second layer and this one does not."""
    if abi < NEEDED_ABI:
        return ("everything",)
    gaps = []
    if abi < _BROUGHT_LATER[Right.TRUNCATE]:
        gaps.append("truncation")
    if abi < PORTS_ABI:
        gaps.append("TCP ports")
    if abi < _BROUGHT_LATER[Right.IOCTL_DEV]:
        gaps.append("device controls")
    if abi < SCOPES_ABI:
        gaps.append("signals and abstract sockets")
    return tuple(gaps)

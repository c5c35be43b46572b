"""Paths that do not exist on the host but must, so that something can be mounted there. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class PlaceholderKind(StrEnum):
    """What has to exist as a mount point."""

    FILE = "file"
    DIRECTORY = "directory"
    SOCKET = "socket"
    """Stands beside a `.git` that is also a placeholder, whose lock counts for both."""


PLACEHOLDER_MODES = {
    PlaceholderKind.DIRECTORY: 0o1700,
    PlaceholderKind.FILE: 0o1400,
    PlaceholderKind.SOCKET: 0o1400,
}
"""The mode identifies a placeholder, even after a crash (native/placeholder.h)."""

PLACEHOLDER_SHARED_BITS = 0o011
"""Added to the mode when several launchers need it."""

PLACEHOLDER_NOTE = "PADDOCK"
"""The only thing that may be in a placeholder."""


class Placeholder(Struct, frozen=True):
    """A path that does not exist on the host but must, for as long as the command runs."""

    path: str
    kind: PlaceholderKind


class LocatedPlaceholder(Struct, frozen=True):
    """A placeholder, and the host directory that must hold it, wherever the path leads later."""

    path: str
    kind: PlaceholderKind
    device: int
    """The device of the directory; `inode` is its inode."""
    inode: int

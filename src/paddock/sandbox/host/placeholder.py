"""Paths that do not exist on the host but must, so that something can be mounted there. Pure."""

from __future__ import annotations


class PlaceholderKind:
    """What has to exist as a mount point: words, because an enumeration takes long to load."""

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


class Placeholder:
    """A path that does not exist on the host but must, for as long as the command runs."""

    __slots__ = ("kind", "path")

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placeholder):
            return NotImplemented
        return (self.path, self.kind) == (other.path, other.kind)

    def __hash__(self) -> int:
        return hash((self.path, self.kind))

    def __repr__(self) -> str:
        return f"Placeholder({self.path!r}, {self.kind!r})"


class LocatedPlaceholder:
    """A placeholder, and the host directory that must hold it, wherever the path leads later."""

    __slots__ = ("device", "inode", "kind", "path")

    def __init__(self, path: str, kind: str, device: int, inode: int) -> None:
        self.path = path
        self.kind = kind
        self.device = device
        """The device of the directory; `inode` is its inode."""
        self.inode = inode

    @property
    def values(self) -> tuple[str, str, int, int]:
        """Return the arguments that make an equal one."""
        return self.path, self.kind, self.device, self.inode

    def __eq__(self, other: object) -> bool:
        return self.values == other.values if isinstance(other, LocatedPlaceholder) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return f"LocatedPlaceholder{self.values!r}"

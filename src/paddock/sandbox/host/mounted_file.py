"""A file of the host by its path and its identity. Pure."""

from __future__ import annotations


class MountedFile:
    """A path, and the file or directory of the host that has to be mounted there."""

    __slots__ = ("device", "inode", "path")

    def __init__(self, path: str, device: int, inode: int) -> None:
        self.path = path
        self.device = device
        self.inode = inode

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MountedFile):
            return NotImplemented
        return (self.path, self.device, self.inode) == (other.path, other.device, other.inode)

    def __hash__(self) -> int:
        return hash((self.path, self.device, self.inode))

    def __repr__(self) -> str:
        return f"MountedFile({self.path!r}, {self.device}, {self.inode})"

"""A file of the host by its path and its identity. Pure."""

from __future__ import annotations

from msgspec import Struct


class MountedFile(Struct, frozen=True):
    """A path, and the file or directory of the host that has to be mounted there."""

    path: str
    device: int
    inode: int

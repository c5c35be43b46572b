"""Follows a path from mount to mount, as the kernel does.

A mount covers everything below its place: the files there, what was mounted in them before, and what was
mounted on the very same place. Neither the length of a mount point nor its position in the table tells which
mount is in sight, because an outer mount may be newer than an inner one, and one that arrives from another
namespace may be put below an older one. The parent of each mount tells it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from paddock.sandbox.host.mount_line import MountLine

_ROOT: Final = b"/"

_UNLISTED: Final = b""
"""Stands for the number of the mount that the root directory is on if the table does not list it."""


class MountTree:
    """The mounts of one table."""

    def __init__(self, lines: Iterable[MountLine]) -> None:
        known = {line.number: line for line in lines}
        # The kernel lists what is mounted in the root directory of this process.
        lowest = [line for line in known.values() if line.parent not in known or line.parent == line.number]
        root = next((line for line in lowest if line.point == _ROOT), None)
        # After chroot(2) to an ordinary directory, the mount around it is not listed but has others on it.
        # One that is mounted on such a root directory itself is out of sight, as every path begins below it.
        if root is not None and any(line.parent == root.parent for line in lowest if line is not root):
            root = None
        self._root = _UNLISTED if root is None else root.number
        self._mounted = {
            (line.parent if line.parent in known else self._root, line.point): line.number
            for line in known.values()
            if line is not root and line.parent != line.number
        }

    def number_of(self, path: bytes) -> bytes:
        """Return the number of the mount that an absolute path without links is on."""
        number = self._root
        for passed in _prefixes(path):
            # Each is mounted on the root of the one before, so this ends.
            while (covering := self._mounted.get((number, passed))) is not None:
                number = covering
        return number


def _prefixes(path: bytes) -> Iterator[bytes]:
    """Yield the directories on a path, and the path, but not the root: a mount on it covers no path."""
    end = 0
    while path != _ROOT and end != len(path):
        end = path.find(b"/", end + 1)
        if end < 0:
            end = len(path)
        yield path[:end]

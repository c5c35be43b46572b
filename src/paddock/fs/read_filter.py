"""Decides which directories a watch may look into: opens each one first, and then judges its real path.

A name could lead elsewhere between the check and its use, because anyone who may write there can replace it,
or a directory above it, by a link. A descriptor always names the same directory.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from errno import EACCES
from types import TracebackType
from typing import Self

ReadFilter = Callable[[bytes], bool]
"""Says whether a client may see a path, which is absolute and has no links. May be called in any thread."""


class HeldDirectory:
    """Owns an O_PATH descriptor, of a directory as a rule. `close` it, or use it in a `with` block."""

    __slots__ = ("file",)

    def __init__(self, file: int) -> None:
        self.file = file
        """The descriptor; -1 once it is closed."""

    @property
    def path(self) -> bytes:
        """Return a path that leads to it, and to nothing else, while it is held."""
        return b"/proc/self/fd/%d" % self.file

    def real(self) -> bytes:
        """Return where it is now, without links. Never waits for a disk. Raises OSError."""
        return os.readlink(self.path)

    def is_at(self, path: bytes) -> bool:
        """Return whether it is at a path now. False if it is closed or was removed."""
        try:
            return self.file >= 0 and self.real() == path
        except OSError:
            return False

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class KeptDirectory:
    """Owns the descriptor that a thread opens for a waiter on the loop; `close` closes it.

    The owner exists before the descriptor, so no descriptor leaks if the waiter is gone: `keep` closes at
    once what arrives after `close`.
    """

    __slots__ = ("_held", "_is_closed", "_lock")

    def __init__(self) -> None:
        self._held: HeldDirectory | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def keep(self, held: HeldDirectory) -> None:
        """Take a directory, once. May be called in any thread."""
        with self._lock:
            if self._is_closed:
                held.close()
            else:
                self._held = held

    def is_at(self, path: bytes) -> bool:
        """Return whether the directory is at a path now. True if there is none yet."""
        return self._held is None or self._held.is_at(path)

    def close(self) -> None:
        """Close the descriptor, now or as soon as it arrives. Idempotent."""
        with self._lock:
            self._is_closed = True
            if self._held is not None:
                self._held.close()


def require_readable(read_filter: ReadFilter | None, path: bytes) -> None:
    """Raise PermissionError for a path that may not be seen. Without `read_filter` all may."""
    if read_filter is not None and not read_filter(path):
        raise PermissionError(EACCES, os.strerror(EACCES))


def require_open(held: HeldDirectory) -> None:
    """Raise PermissionError for a directory that only root's capabilities open: no command in a sandbox has
    any, and no file worker."""
    if os.geteuid() == 0:
        _require_mode(os.fstat(held.file), stat.S_IROTH | stat.S_IXOTH)


def require_way(path: bytes) -> None:
    """Raise OSError for a path, without links, that leads through a directory that only these search."""
    if os.geteuid() != 0:
        return
    while len(path) > 1:
        path = os.path.dirname(path)
        _require_mode(os.stat(path, follow_symlinks=False), stat.S_IXOTH)


def _require_mode(status: os.stat_result, needed: int) -> None:
    """Raise PermissionError unless a mode grants root, without capabilities, what these bits grant others."""
    if status.st_uid == 0:
        needed <<= 6
    elif status.st_gid in (os.getegid(), *os.getgroups()):
        needed <<= 3
    if status.st_mode & needed != needed:
        raise PermissionError(EACCES, os.strerror(EACCES))


def below(directory: bytes, name: bytes) -> bytes:
    """Return the path of a name in a directory."""
    return directory.rstrip(b"/") + b"/" + name

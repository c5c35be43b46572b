"""Decides which directories a watch may look into: it holds one first, and then judges it by its real path.

A name that was judged could lead elsewhere when it is used, because whoever may write there can
exchange it, or one above it, for a link. A descriptor can't.
"""

from __future__ import annotations

import os
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
        """Return whether it is at a path now; one that is closed, or was removed, is nowhere."""
        try:
            return self.file >= 0 and self.real() == path
        except OSError:
            return False

    def close(self) -> None:
        """Let go of it. Idempotent."""
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

    The owner is there before the descriptor. So it does not matter whether anybody takes what the thread
    found: what comes after `close` is closed at once.
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
        """Return whether it is at a path now; without one there is nothing to be elsewhere."""
        return self._held is None or self._held.is_at(path)

    def close(self) -> None:
        """Let go of it, and of what is yet to come. Idempotent."""
        with self._lock:
            self._is_closed = True
            if self._held is not None:
                self._held.close()


def require_readable(read_filter: ReadFilter | None, path: bytes) -> None:
    """Raise PermissionError for what may not be seen; without `read_filter` everything may."""
    if read_filter is not None and not read_filter(path):
        raise PermissionError(EACCES, os.strerror(EACCES))


def below(directory: bytes, name: bytes) -> bytes:
    """Return the path of a name in a directory."""
    return directory.rstrip(b"/") + b"/" + name

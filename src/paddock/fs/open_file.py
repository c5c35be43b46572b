"""An open file, or a whole tree as one stream.

One thread may close it while another uses it. The descriptor stays open until the latter is done, so that a
number that the kernel reuses is never mistaken for the old file.
"""

from __future__ import annotations

import errno
import os
import threading
from abc import ABC, abstractmethod

from paddock.errors import InvalidRequest
from paddock.fs.content import open_to_read, open_to_replace, read_fully, write_all
from paddock.fs.operation import Open, OpenMode
from paddock.fs.replacement import Replacement
from paddock.fs.tree_reader import TreeReader
from paddock.fs.tree_writer import TreeWriter


class OpenFile(ABC):
    """An open file or tree. Every method may raise OSError or RequestError; `close` must follow."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._is_open = True

    def read(self, length: int, offset: int) -> bytes:
        """Read part of the file; returns fewer bytes than requested only at its end."""
        with self._lock:
            self._require_open()
            return self._read(length, offset)

    def write(self, data: bytes, offset: int) -> None:
        """Write part of the file."""
        with self._lock:
            self._require_open()
            self._write(data, offset)

    def close(self, *, discard: bool) -> None:
        """Close it once nobody uses it, and publish or discard it if it was opened for that. Idempotent."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._close(discard=discard)

    @property
    def size_bytes(self) -> int:
        """Return the current size of the file; 0 if it is not known beforehand."""
        return 0

    def _require_open(self) -> None:
        if not self._is_open:
            raise _bad_descriptor()

    def _read(self, length: int, offset: int) -> bytes:
        raise _bad_descriptor()

    def _write(self, data: bytes, offset: int) -> None:
        raise _bad_descriptor()

    @abstractmethod
    def _close(self, *, discard: bool) -> None: ...


def _bad_descriptor() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


class _RegularFile(OpenFile):
    """A regular file, read or written at any offset. The kernel refuses what it was not opened for."""

    def __init__(self, path: bytes, descriptor: int, replacement: Replacement | None = None) -> None:
        super().__init__(path)
        self._descriptor = descriptor
        self._replacement = replacement

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def _read(self, length: int, offset: int) -> bytes:
        return read_fully(self._descriptor, length, offset)

    def _write(self, data: bytes, offset: int) -> None:
        write_all(self._descriptor, data, offset)

    def _close(self, *, discard: bool) -> None:
        if self._replacement is None:
            os.close(self._descriptor)
        elif discard:
            self._replacement.discard()
        else:
            self._replacement.publish()


class _ReadTree(OpenFile):
    """A tree that is read from its beginning to its end."""

    def __init__(self, path: bytes) -> None:
        super().__init__(path)
        self._tree = TreeReader(path)

    def _read(self, length: int, offset: int) -> bytes:
        _require_next(offset, self._tree.offset, "read")
        return self._tree.read(length)

    def _close(self, *, discard: bool) -> None:
        self._tree.close()


class _WrittenTree(OpenFile):
    """A tree that is written from its beginning to its end."""

    def __init__(self, path: bytes) -> None:
        super().__init__(path)
        self._tree = TreeWriter(path)

    def _write(self, data: bytes, offset: int) -> None:
        _require_next(offset, self._tree.offset, "written")
        self._tree.write(data)

    def _close(self, *, discard: bool) -> None:
        if discard:
            self._tree.discard()
        else:
            self._tree.publish()


def _require_next(offset: int, expected: int, action: str) -> None:
    if offset != expected:
        raise InvalidRequest(f"a tree is {action} in order: the next offset is {expected}, not {offset}")


def open_any(operation: Open) -> OpenFile:
    """Open a regular file or a tree; refuse anything else without waiting for it."""
    path = operation.path
    match operation.mode:
        case OpenMode.READ:
            return _RegularFile(path, open_to_read(path, follow=operation.follow))
        case OpenMode.REPLACE:
            return _RegularFile(path, open_to_replace(path, follow=operation.follow))
        case OpenMode.PUBLISH:
            replacement = Replacement(path, follow=operation.follow)
            return _RegularFile(path, replacement.descriptor, replacement)
        case OpenMode.READ_TREE:
            return _ReadTree(path)
        case OpenMode.WRITE_TREE:
            return _WrittenTree(path)

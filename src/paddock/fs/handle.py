"""Open files, by number.

A file can be used by several threads while another one closes it: its descriptor stays open
until the last of them is done, so that a number which the kernel gives out again is never
mistaken for the old file.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading

from paddock.errors import InvalidRequest, NotFound, OperationFailed
from paddock.fs import resolve
from paddock.fs.answer import Block, Done, Opened
from paddock.fs.failure import map_os_error
from paddock.fs.operation import MAX_BLOCK_BYTES, Close, Open, OpenMode, ReadBlock


class OpenFile:
    """A descriptor and what it was opened for. `lock` is held while it is used."""

    __slots__ = ("descriptor", "is_open", "lock", "mode", "path")

    def __init__(self, descriptor: int, path: bytes, mode: OpenMode) -> None:
        self.descriptor = descriptor
        self.path = path
        self.mode = mode
        self.lock = threading.Lock()
        self.is_open = True

    def close(self) -> None:
        """Close the descriptor when nobody uses it; idempotent."""
        with self.lock:
            if self.is_open:
                self.is_open = False
                os.close(self.descriptor)


class HandleTable:
    """The open files of one client. After `end` nothing more can be opened, and `close_all` must follow."""

    def __init__(self) -> None:
        self._files: dict[int, OpenFile] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._is_ended = False

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: OpenFile) -> int:
        """Keep a file and give its number. Raises OperationFailed, and closes it, after the end."""
        with self._lock:
            if not self._is_ended:
                number = next(self._numbers)
                self._files[number] = file
                return number
        file.close()
        raise OperationFailed("the connection has ended, and its files with it")

    def get(self, number: int) -> OpenFile:
        """The file of a number. Raises NotFound."""
        file = self._files.get(number)
        if file is None:
            raise NotFound(f"file {number} is not open (any more)")
        return file

    def take(self, number: int) -> OpenFile | None:
        """Remove a file from the table, for whoever closes it."""
        with self._lock:
            return self._files.pop(number, None)

    def end(self) -> bool:
        """Refuse further files; whether there are any to close. Never waits for a file."""
        with self._lock:
            self._is_ended = True
            return bool(self._files)

    def close_all(self) -> None:
        """Close every file."""
        while self._files:
            _, file = self._files.popitem()
            file.close()


def open_file(operation: Open, handles: HandleTable) -> Opened:
    """Open a regular file; anything else is refused without waiting for it."""
    path = operation.path
    try:
        # Without O_NONBLOCK the kernel would wait for the other end of a fifo.
        descriptor = resolve.open_path(path, os.O_RDONLY | os.O_NONBLOCK, follow=operation.follow)
    except OSError as error:
        raise map_os_error(error, "open", path) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise InvalidRequest(f"path {os.fsdecode(path)!r} is not a file")
    number = handles.add(OpenFile(descriptor, path, operation.mode))
    return Opened(handle=number, size_bytes=status.st_size)


def read_block(operation: ReadBlock, handles: HandleTable) -> Block:
    """Read; fewer bytes than asked for only at the end of the file. An error closes the file."""
    file = handles.get(operation.handle)
    length = min(operation.length, MAX_BLOCK_BYTES)
    with file.lock:
        try:
            if not file.is_open:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            return Block(data=os.pread(file.descriptor, length, operation.offset))
        except OSError as error:
            raise map_os_error(error, "read", file.path) from error


def close(operation: Close, handles: HandleTable) -> Done:
    """Close a file; one that is not open is no error."""
    file = handles.take(operation.handle)
    if file is not None:
        file.close()
    return Done()

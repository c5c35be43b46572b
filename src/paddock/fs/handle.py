"""Open files and trees, by number."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.errors import NotFound, OperationFailed, RequestError
from paddock.fs.answer import Block, Done, Opened
from paddock.fs.failure import map_os_error
from paddock.fs.open_file import OpenFile, open_any
from paddock.fs.operation import MAX_BLOCK_BYTES, Close, Open, ReadBlock, WriteBlock


class HandleTable:
    """The open files of one client. After `end` nothing more can be opened, and `close_all` must follow."""

    def __init__(self) -> None:
        self._files: dict[int, OpenFile] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._is_ended = False

    def __len__(self) -> int:
        return len(self._files)

    @property
    def is_ended(self) -> bool:
        """Return whether the table has ended: files not closed by then are discarded."""
        return self._is_ended

    def add(self, file: OpenFile) -> int:
        """Keep a file and return its number. After the end, close the file and raise OperationFailed."""
        with self._lock:
            if not self._is_ended:
                number = next(self._numbers)
                self._files[number] = file
                return number
        file.close(discard=True)
        raise OperationFailed("the connection has ended, and its files with it")

    def get(self, number: int) -> OpenFile:
        """Return the file of a number. Raises NotFound."""
        file = self._files.get(number)
        if file is None:
            raise NotFound(f"file {number} is not open")
        return file

    def take(self, number: int) -> OpenFile | None:
        """Remove a file from the table, for the caller to close."""
        with self._lock:
            return self._files.pop(number, None)

    def end(self) -> bool:
        """Refuse further files. Return whether there are any to close. Never waits for a file."""
        with self._lock:
            self._is_ended = True
            return bool(self._files)

    def close_all(self) -> None:
        """Close every file, and discard those not yet published."""
        while self._files:
            _, file = self._files.popitem()
            file.close(discard=True)


def open_file(operation: Open, handles: HandleTable) -> Opened:
    """Open a regular file or a tree; refuse anything else without waiting for it."""
    path = operation.path
    try:
        file = open_any(operation)
        try:
            size_bytes = file.size_bytes
            wanted = operation.prefetch_bytes
            beginning = file.read(wanted, 0) if wanted else b""
        except BaseException:
            file.close(discard=True)
            raise
    except OSError as error:
        raise map_os_error(error, "open", path) from error
    if wanted and len(beginning) < wanted:
        file.close(discard=True)
        return Opened(handle=None, size_bytes=len(beginning), beginning=beginning)
    return Opened(handle=handles.add(file), size_bytes=size_bytes, beginning=beginning)


def read_block(operation: ReadBlock, handles: HandleTable) -> Block:
    """Read from a file. An error closes it."""
    length = min(operation.length, MAX_BLOCK_BYTES)
    with _transfer(operation.handle, handles, "read") as file:
        return Block(data=file.read(length, operation.offset))


def write_block(operation: WriteBlock, handles: HandleTable) -> Done:
    """Write to a file. An error closes it, and discards it if it was opened to be published."""
    with _transfer(operation.handle, handles, "write") as file:
        file.write(operation.data, operation.offset)
    return Done()


@contextmanager
def _transfer(number: int, handles: HandleTable, action: str) -> Iterator[OpenFile]:
    file = handles.get(number)
    try:
        yield file
    except (OSError, RequestError) as error:
        handles.take(number)
        file.close(discard=True)
        if isinstance(error, RequestError):
            raise
        raise map_os_error(error, action, file.path) from error


def close(operation: Close, handles: HandleTable) -> Done:
    """Close a file; succeed if an error has closed it before. Raises NotFound if the end discarded it."""
    file = handles.take(operation.handle)
    if file is None:
        if handles.is_ended:
            raise NotFound(f"file {operation.handle} is no longer open, and was not published")
        return Done()
    try:
        file.close(discard=operation.discard)
    except OSError as error:
        raise map_os_error(error, "publish", file.path) from error
    return Done()

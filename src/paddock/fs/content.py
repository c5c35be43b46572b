"""Replacing the content of files."""

from __future__ import annotations

import errno
import os
import stat

from paddock.errors import InvalidRequest, RequestError
from paddock.fs import resolve
from paddock.fs.answer import Done
from paddock.fs.failure import map_os_error, read_only_before_rights, with_number
from paddock.fs.operation import WriteFile
from paddock.fs.replacement import Replacement
from paddock.fs.set_id import clear_set_id

# Without O_NONBLOCK the kernel would wait for the other end of a fifo; without O_NOCTTY a terminal could
# become the server's controlling one.
_NEVER_WAITING = os.O_NONBLOCK | os.O_NOCTTY


def write_file(operation: WriteFile) -> Done:
    """Replace the content of a regular file, in place or as a whole."""
    path = operation.path
    try:
        if operation.is_atomic:
            _write_beside(operation)
        else:
            descriptor = open_to_replace(path, follow=operation.follow)
            try:
                write_all(descriptor, operation.data)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise map_os_error(error, "write", path) from error
    return Done()


def _write_beside(operation: WriteFile) -> None:
    replacement = Replacement(operation.path, follow=operation.follow)
    try:
        write_all(replacement.descriptor, operation.data)
    except BaseException:
        replacement.discard()
        raise
    replacement.publish()


def open_to_read(path: bytes, *, follow: bool) -> int:
    """Open a regular file for reading. Raises OSError, and InvalidRequest for anything else."""
    descriptor = resolve.open_path(path, os.O_RDONLY | _NEVER_WAITING, follow=follow)
    _regular(descriptor, path)
    return descriptor


def open_to_replace(path: bytes, *, follow: bool) -> int:
    """Create a regular file, or empty it. Raises OSError, and InvalidRequest for anything else."""
    # Not O_TRUNC, which would change something that is not a regular file.
    with read_only_before_rights(path):
        descriptor = resolve.open_path(path, os.O_WRONLY | os.O_CREAT | _NEVER_WAITING, follow=follow)
    status = _regular(descriptor, path)
    try:
        clear_set_id(descriptor, status)
        os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _regular(descriptor: int, path: bytes) -> os.stat_result:
    """Return the descriptor's status; unless it is a regular file, close it and raise InvalidRequest."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _not_a_file(path, status)
    return status


def _not_a_file(path: bytes, status: os.stat_result) -> RequestError:
    """Return the reference's error, with the number by which clients know it for what it is."""
    error = InvalidRequest(f"path {os.fsdecode(path)!r} is not a file")
    return with_number(error, errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL, path)


def write_all(descriptor: int, data: bytes, offset: int = 0) -> None:
    """Write everything at this offset. Raises OSError; part of it may be written then."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


def read_fully(descriptor: int, length: int, offset: int) -> bytes:
    """Read the requested bytes, or fewer at the end of the file. Raises OSError."""
    data = os.pread(descriptor, length, offset)
    if not data or len(data) == length:
        return data
    # One read of a file in /proc may return only part of what is left.
    pieces = [data]
    got = len(data)
    while got < length and (data := os.pread(descriptor, length - got, offset + got)):
        pieces.append(data)
        got += len(data)
    return b"".join(pieces) if len(pieces) > 1 else pieces[0]

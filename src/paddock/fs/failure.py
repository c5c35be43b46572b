"""Translates errors of the operating system to exceptions of Paddock, for the whole engine.

Also turns exceptions into values and back, so that they can cross between processes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest, NotFound, OperationFailed, RequestError

if TYPE_CHECKING:
    from paddock.fs.answer import Failure, FailureKind

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL})
"""Errors that the caller can fix: the operation is not allowed or makes no sense."""


def map_os_error(error: OSError, action: str, path: bytes) -> RequestError:
    """Return the exception for an error that occurred while doing `action` to `path`."""
    number = error.errno or errno.EIO
    text = f"can't {action} {os.fsdecode(path)!r}: {os.strerror(number)} (os error {number})"
    if number == errno.ENOENT:
        kind: type[RequestError] = NotFound
    else:
        kind = InvalidRequest if number in _REFUSED else OperationFailed
    return with_number(kind(text), number, path)


def with_number(error: RequestError, number: int, path: bytes) -> RequestError:
    """Give an error the number of the operating system, and the path that it is about."""
    error.os_error = (number, _encodable(os.fsdecode(path)))
    return error


def no_thread() -> OperationFailed:
    """Return the exception for a job that can't get a thread (pthread_create(3))."""
    return OperationFailed(
        "the server could start no thread for this: the limit of processes is reached; "
        "try again when some have ended, or raise it (ulimit -u, pids.max of the control group)"
    )


@contextmanager
def read_only_before_rights(path: bytes, directory: int | None = None) -> Iterator[None]:
    """Prefer "read-only file system" to "permission denied" when the block opens a file to write.

    The kernel itself does so only with O_TRUNC. `path` may be relative to an open directory.
    """
    try:
        yield
    except PermissionError as error:
        if _is_read_only(path, directory):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS)) from error
        raise


def _is_read_only(path: bytes, directory: int | None) -> bool:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return False
    try:
        return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)
    finally:
        os.close(descriptor)


def to_failure(error: RequestError) -> Failure:
    """Turn an exception into a value."""
    from paddock.fs.answer import Failure, FailureKind

    kinds = (kind for kind, exception in _exceptions().items() if isinstance(error, exception))
    kind = next(kinds, FailureKind.FAILED)
    return Failure(kind=kind, message=_encodable(str(error)), os_error=error.os_error)


def to_error(failure: Failure) -> RequestError:
    """Turn a value back into its exception."""
    error = _exceptions()[failure.kind](failure.message)
    error.os_error = failure.os_error
    return error


@cache
def _exceptions() -> dict[FailureKind, type[RequestError]]:
    from paddock.fs.answer import FailureKind

    return {
        FailureKind.NOT_FOUND: NotFound,
        FailureKind.REFUSED: InvalidRequest,
        FailureKind.FAILED: OperationFailed,
    }


def _encodable(text: str) -> str:
    # Surrogates stand for the undecodable bytes of a name; no text encoding accepts them.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

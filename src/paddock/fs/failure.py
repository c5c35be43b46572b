"""Errors of the operating system -> exceptions of Paddock: the one translation point of this engine."""

from __future__ import annotations

import errno
import os

from paddock.errors import InvalidRequest, NotFound, OperationFailed, RequestError

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EINVAL})
"""What the caller can mend: it is not allowed, or makes no sense."""


def map_os_error(error: OSError, action: str, path: bytes) -> RequestError:
    """The exception for an error that came up when `action` was done to `path`."""
    number = error.errno or errno.EIO
    text = f"can't {action} {os.fsdecode(path)!r}: {os.strerror(number)} (os error {number})"
    if number == errno.ENOENT:
        return NotFound(text)
    return InvalidRequest(text) if number in _REFUSED else OperationFailed(text)

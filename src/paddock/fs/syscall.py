"""Two system calls that Python does not offer: openat2 and statx.

Each raises OSError, as the functions of `os` do. What they are good for is decided elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100

_OPENAT2 = 437
"""Its number, on every architecture since they share one table (openat2(2), Linux 5.6)."""
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_OPEN_HOW = struct.Struct("=QQQ")

_STATX_WANTED = 0x1 | 0x2 | 0x40 | 0x200 | 0x800
"""Type, mode, time of modification, size, time of birth."""
_STATX_BIRTH = 0x800
_STATX_BYTES = 256
_STATX = struct.Struct("=I24xH10xQ32xqI4x16xqI4x")
"""mask, mode, size, birth (seconds, nanoseconds), modification (the same), by their offsets in statx(2)."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)


class Status(NamedTuple):
    """What statx tells of a file."""

    mode: int
    size_bytes: int
    born_at_ms: int
    """0 where the file system does not record it."""
    modified_at_ms: int


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """Open a path, relative to an open directory or AT_FDCWD, within the bounds that `resolve` sets."""
    how = _OPEN_HOW.pack(flags | os.O_CLOEXEC, 0, resolve)
    descriptor: int = _libc.syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_long(directory),
        ctypes.c_char_p(path),
        ctypes.c_char_p(how),
        ctypes.c_size_t(len(how)),
    )
    if descriptor < 0:
        raise _last_error()
    return descriptor


def statx(directory: int, path: bytes, flags: int) -> Status:
    """Describe a path, relative to an open directory or AT_FDCWD."""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if _libc.statx(directory, path, flags, _STATX_WANTED, buffer) != 0:
        raise _last_error()
    mask, mode, size, born_s, born_ns, modified_s, modified_ns = _STATX.unpack_from(buffer)
    born_at_ms = born_s * 1000 + born_ns // 1_000_000 if mask & _STATX_BIRTH else 0
    return Status(mode, size, born_at_ms, modified_s * 1000 + modified_ns // 1_000_000)


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))

"""System calls that Python does not offer: openat2 and statx.

Each raises OSError, as the functions of `os` do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_EMPTY_PATH = 0x1000
AT_STATX_DONT_SYNC = 0x4000

RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_CACHED = 0x20

_OPENAT2 = 437
"""Its number, on every architecture since they share one table (openat2(2), Linux 5.6)."""
_OPEN_HOW = struct.Struct("=QQQ")

_STATX_WANTED = 0x1 | 0x2 | 0x40 | 0x200 | 0x800
"""Type, mode, time of modification, size, time of birth."""
_STATX_BIRTH = 0x800
_STATX_BYTES = 256
_STATX = struct.Struct("=I24xH10xQ32xqI4x16xqI4x")
"""mask, mode, size, birth (seconds, nanoseconds), modification (the same), by their offsets in statx(2)."""

_libc = ctypes.CDLL(None, use_errno=True)
_openat2 = _libc["syscall"]
_openat2.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_openat2.restype = ctypes.c_long
_statx = _libc["statx"]
_statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)

# For calls that never wait: keeping the interpreter lock and converting no argument makes them quicker. A
# number is then passed as a C int, so the function must take one.
_libc_at_once = ctypes.PyDLL(None, use_errno=True)
_syscall_at_once = _libc_at_once["syscall"]
_syscall_at_once.restype = ctypes.c_long
_statx_at_once = _libc_at_once["statx"]


Status = tuple[int, int, int, int]
"""What statx reports about a file: its mode, its size in bytes, when it was made (0 where the file system
does not record it) and when it was modified, both in milliseconds; 0 for a time that 64 bits cannot hold."""

_MIN_TIME_MS, _MAX_TIME_MS = -(2**63), 2**63 - 1


def openat2(directory: int, path: bytes, flags: int, resolve: int) -> int:
    """Open a path, relative to an open directory or AT_FDCWD, within the bounds that `resolve` sets."""
    how = _OPEN_HOW.pack(flags | os.O_CLOEXEC, 0, resolve)
    descriptor: int = _openat2(_OPENAT2, directory, path, how, len(how))
    if descriptor < 0:
        raise _last_error()
    return descriptor


_AT_ONCE = AT_EMPTY_PATH | AT_STATX_DONT_SYNC
_spare_buffers: list[ctypes.Array[ctypes.c_char]] = []

_OPENAT2_AT_ONCE = ctypes.c_long(_OPENAT2)
_FROM_ROOT = ctypes.c_long(AT_FDCWD)
_HOW_CACHED = _OPEN_HOW.pack(os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, RESOLVE_CACHED)
_HOW_BYTES = ctypes.c_size_t(len(_HOW_CACHED))


def describe_at_once(path: bytes) -> Status:
    """Describe the file or link of an absolute path, if the kernel has all of it in memory.

    Never waits: EAGAIN if it would have to (Linux 5.12; EINVAL before).
    """
    descriptor = _syscall_at_once(_OPENAT2_AT_ONCE, _FROM_ROOT, path, _HOW_CACHED, _HOW_BYTES)
    if descriptor < 0 and ctypes.get_errno() == errno.EAGAIN:
        # Any rename on the host can disturb a lookup without locks; the second try usually succeeds.
        descriptor = _syscall_at_once(_OPENAT2_AT_ONCE, _FROM_ROOT, path, _HOW_CACHED, _HOW_BYTES)
    if descriptor < 0:
        raise _last_error()
    # Making a buffer takes as long as asking the kernel, so reuse them.
    buffer = _spare_buffers.pop() if _spare_buffers else ctypes.create_string_buffer(_STATX_BYTES)
    failed = _statx_at_once(descriptor, b"", _AT_ONCE, _STATX_WANTED, buffer)
    # The descriptor only names the file (O_PATH), so closing it does not wait either.
    os.close(descriptor)
    if failed:
        raise _last_error()
    status = _status(buffer)
    _spare_buffers.append(buffer)
    return status


def statx(directory: int, path: bytes, flags: int) -> Status:
    """Describe a path, relative to an open directory or AT_FDCWD."""
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if _statx(directory, path, flags, _STATX_WANTED, buffer) != 0:
        raise _last_error()
    return _status(buffer)


def _status(buffer: ctypes.Array[ctypes.c_char]) -> Status:
    mask, mode, size_bytes, born_s, born_ns, modified_s, modified_ns = _STATX.unpack_from(buffer)
    born_at_ms = _milliseconds(born_s, born_ns) if mask & _STATX_BIRTH else 0
    return mode, size_bytes, born_at_ms, _milliseconds(modified_s, modified_ns)


def _milliseconds(seconds: int, nanoseconds: int) -> int:
    # Some file systems keep whatever seconds a user sets.
    time_ms = seconds * 1000 + nanoseconds // 1_000_000
    return time_ms if _MIN_TIME_MS <= time_ms <= _MAX_TIME_MS else 0


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))

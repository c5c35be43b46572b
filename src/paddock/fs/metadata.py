"""Reads the metadata of a path.

The kernel usually has it in memory, and can be asked to answer only if it need not wait. That takes a tenth
of the time of waking a thread, so callers try it first.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG, S_IWGRP, S_IWOTH

from paddock.errors import InvalidRequest
from paddock.fs import syscall
from paddock.fs.answer import CanonicalPath, Metadata
from paddock.fs.failure import map_os_error
from paddock.fs.operation import Canonicalize, GetMetadata
from paddock.fs.resolve import parent_of
from paddock.fs.syscall import AT_FDCWD, AT_SYMLINK_NOFOLLOW, Status, statx
from paddock.fs.way import way_of

describe_at_once: Callable[[bytes], Status]
try:
    from paddock.fs import _status
except ImportError:
    describe_at_once = syscall.describe_at_once
else:
    # Compiled where Python's headers were available: it takes half of the time.
    describe_at_once = _status.describe_at_once


def get_metadata(operation: GetMetadata) -> Metadata:
    """Describe what a path leads to."""
    path = operation.path
    try:
        if operation.follow:
            status = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
            is_link = S_ISLNK(status[0])
            return _metadata(statx(AT_FDCWD, path, 0) if is_link else status, is_link)
        with parent_of(path) as entry:
            status = statx(entry.directory, entry.name, AT_SYMLINK_NOFOLLOW)
    except OSError as error:
        raise map_os_error(error, "look at", path) from error
    if S_ISLNK(status[0]):
        raise refuse_link(path)
    return _metadata(status, False)


_NOT_NOW = frozenset({errno.EAGAIN, errno.ENOSYS, errno.EINVAL, errno.EPERM})
"""Errors if the kernel would have to wait, or if it or a seccomp filter does not know the flag."""


def get_metadata_at_once(path: bytes) -> Metadata | None:
    """Return the metadata if that needs no waiting, else None. For the thread of an event loop."""
    try:
        status = describe_at_once(path)
    except OSError as error:
        if error.errno in _NOT_NOW:
            return None
        raise map_os_error(error, "look at", path) from error
    return None if S_ISLNK(status[0]) else _metadata(status, False)


def refuse_link(path: bytes) -> InvalidRequest:
    """Return the error for a link that must not be followed."""
    return InvalidRequest(f"path {os.fsdecode(path)!r} contains a symbolic link, which must not be followed")


def _metadata(status: Status, is_link: bool) -> Metadata:
    mode, size_bytes, born_at_ms, modified_at_ms = status
    return Metadata(
        is_directory=S_ISDIR(mode),
        is_file=S_ISREG(mode),
        is_link=is_link,
        mode=S_IMODE(mode),
        size_bytes=size_bytes,
        created_at_ms=born_at_ms,
        modified_at_ms=modified_at_ms,
    )


def canonicalize(operation: Canonicalize) -> CanonicalPath:
    """Find the path without links and dots."""
    try:
        if operation.tells_way:
            way = way_of(operation.path, _link_at)
            return CanonicalPath(path=way[-1], way=way, has_other_names=_has_other_names(way[-1]))
        path = os.path.realpath(operation.path, strict=True)
        if not operation.tells_read_only:
            return CanonicalPath(path=path)
        return CanonicalPath(path=path, is_read_only=bool(os.statvfs(path).f_flag & os.ST_RDONLY))
    except OSError as error:
        raise map_os_error(error, "resolve", operation.path) from error


_NO_LINK = frozenset({errno.EINVAL, errno.ENOENT, errno.ENOTDIR})
"""Errors of readlink(2) where something else is, or nothing."""


def _link_at(path: bytes) -> bytes | None:
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno in _NO_LINK:
            return None
        raise


def _has_other_names(path: bytes) -> bool:
    """Return whether a file has hard links by which this user may change it, perhaps after its mode."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    is_open = bool(status.st_mode & (S_IWGRP | S_IWOTH)) or os.geteuid() in (0, status.st_uid)
    return S_ISREG(status.st_mode) and status.st_nlink > 1 and is_open

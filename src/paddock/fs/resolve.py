"""From a path to a descriptor, with symbolic links followed or not.

Where links are not followed nothing is checked beforehand: the descriptor that comes out was
reached without one, whatever happened to the path meanwhile. All errors are OSErrors; a link
where there must be none is ENOTDIR above the last name, and ELOOP at it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from paddock.fs.syscall import AT_FDCWD, RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, openat2

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_UNAVAILABLE = (errno.ENOSYS, errno.EPERM)
"""Errors of openat2 on a kernel without it, and below a seccomp filter that does not know it."""


class NameInDirectory(NamedTuple):
    """An open directory and a name in it, which is neither empty nor `..`."""

    directory: int
    name: bytes


def open_path(path: bytes, flags: int, mode: int = 0o666, *, follow: bool) -> int:
    """Open a path. If `follow` is false no part of it may be a link."""
    if follow:
        return os.open(path, flags | os.O_CLOEXEC, mode)
    with parent_of(path) as entry:
        return os.open(entry.name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode, dir_fd=entry.directory)


@contextmanager
def parent_of(path: bytes, *, follow: bool = False) -> Iterator[NameInDirectory]:
    """Yield a path's last name in its directory, open while the block runs.

    Follows no link unless told so.
    """
    entry = open_parent(path, follow=follow)
    try:
        yield entry
    finally:
        os.close(entry.directory)


def open_parent(path: bytes, *, follow: bool) -> NameInDirectory:
    """Return a path's last name in its directory; the caller closes the directory.

    A slash at the end is dropped: the kernel would follow a link before it.
    """
    stripped = path.rstrip(b"/") or b"/"
    parent, name = os.path.split(stripped)
    if name in (b"", b".", b".."):
        # Such a name is not a link; the directory itself takes the place of its parent.
        parent, name = stripped, b"."
    if follow:
        return NameInDirectory(os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), name)
    return NameInDirectory(open_directory(parent), name)


def open_directory(path: bytes) -> int:
    """Open a directory, as a place for names only, of whose absolute path no part is a link."""
    return _open(AT_FDCWD, path, os.O_PATH, RESOLVE_NO_SYMLINKS)


def open_beneath(directory: int, path: bytes) -> int:
    """Open a directory for listing, by a relative path of which no part is a link or leads upwards."""
    return _open(directory, path, os.O_RDONLY, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH)


def _open(directory: int, path: bytes, access: int, resolve: int) -> int:
    try:
        return openat2(directory, path, access | os.O_DIRECTORY, resolve)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
        if error.errno not in _UNAVAILABLE:
            raise
    names = [name for name in path.split(b"/") if name not in (b"", b".")]
    if resolve & RESOLVE_BENEATH and b".." in names:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return _open_by_steps(directory, names, access)


def _open_by_steps(directory: int, names: list[bytes], access: int) -> int:
    here = os.open(b"/", _STEP) if directory == AT_FDCWD else os.dup(directory)
    try:
        for name in names:
            # With O_PATH a link is opened itself; it is no directory, and that is ENOTDIR.
            deeper = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = deeper
        return os.open(b".", access | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)

"""Opens paths, with or without following symbolic links.

Without following links, nothing is checked in advance: the descriptor was reached without a link, whatever
happened to the path meanwhile. All errors are OSErrors. A forbidden link is ENOTDIR above the last name, and
ELOOP at it.
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
    """Open a path. Unless `follow` is true, no part of it may be a link."""
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

    Drops a slash at the end: with it the kernel would follow a link.
    """
    stripped = path.rstrip(b"/") or b"/"
    parent, name = os.path.split(stripped)
    if name in (b"", b".", b".."):
        # Such a name is not a link, so use the directory itself instead of its parent.
        parent, name = stripped, b"."
    if follow:
        return NameInDirectory(os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), name)
    return NameInDirectory(open_directory(parent), name)


def open_directory(path: bytes) -> int:
    """Open a directory only to look up names in it (O_PATH). No part of its absolute path may be a link."""
    return _open(AT_FDCWD, path, os.O_PATH, RESOLVE_NO_SYMLINKS)


def open_beneath(directory: int, path: bytes) -> int:
    """Open a directory for listing. No part of its relative path may be a link or lead upwards."""
    # Refused here, not by the kernel: for `..` it answers EAGAIN while anybody renames (openat2(2)).
    if b".." in path.split(b"/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
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
    return _open_by_steps(directory, names, access)


def _open_by_steps(directory: int, names: list[bytes], access: int) -> int:
    here = os.open(b"/", _STEP) if directory == AT_FDCWD else os.dup(directory)
    try:
        for name in names:
            # O_PATH opens a link itself, which is no directory, so a link gives ENOTDIR.
            deeper = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = deeper
        return os.open(b".", access | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)

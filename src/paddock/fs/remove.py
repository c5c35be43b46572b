"""Removing files and trees.

The directory of a path is opened once, and every step starts there, so swapping a part of the path meanwhile
redirects nothing. A tree is removed name by name from open directories: if somebody swaps a directory for a
link meanwhile, the link is unlinked and never followed.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from paddock.errors import InvalidRequest, OperationFailed
from paddock.fs.answer import Done
from paddock.fs.failure import map_os_error
from paddock.fs.metadata import refuse_link
from paddock.fs.operation import Remove
from paddock.fs.resolve import NameInDirectory, parent_of

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(operation: Remove) -> Done:
    """Remove a file, a link itself, or a directory. If a later step fails, earlier removals stay."""
    path = _removable(operation.path)
    if not operation.follow and operation.recursive:
        raise OperationFailed("recursive no-follow removal is unsupported; give recursive: false")
    try:
        with parent_of(path, follow=operation.follow) as entry:
            status = os.stat(entry.name, dir_fd=entry.directory, follow_symlinks=False)
            if not operation.follow and stat.S_ISLNK(status.st_mode):
                raise refuse_link(path)
            _remove(entry, stat.S_ISDIR(status.st_mode), recursive=operation.recursive)
    except FileNotFoundError as error:
        if not operation.force:
            raise map_os_error(error, "remove", path) from error
    except OSError as error:
        raise map_os_error(error, "remove", path) from error
    return Done()


def _removable(path: bytes) -> bytes:
    """Return the path of a name that can be removed. Raises InvalidRequest, before anything is touched."""
    # Drop a slash at the end: with it the kernel would follow a link.
    stripped = path.rstrip(b"/")
    if os.path.basename(stripped) in (b"", b".", b".."):
        # The kernel refuses to remove these (rmdir(2)), but only after their content would be gone.
        raise InvalidRequest(f"{os.fsdecode(path)!r} names no entry that can be removed; give its own name")
    return stripped


def _remove(entry: NameInDirectory, is_directory: bool, *, recursive: bool) -> None:
    # Each call acts on the name itself, so one that has become a link meanwhile is not followed.
    if not is_directory:
        os.unlink(entry.name, dir_fd=entry.directory)
        return
    if recursive:
        _empty(os.open(entry.name, _ENTER, dir_fd=entry.directory))
    os.rmdir(entry.name, dir_fd=entry.directory)


class _Level:
    """A directory that is being emptied, and the names of its directories that are not empty yet."""

    __slots__ = ("descriptor", "directories")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.directories: list[bytes] = []
        with os.scandir(descriptor) as found:
            entries = [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in found]
        for name, is_directory in entries:
            if is_directory:
                self.directories.append(name)
            else:
                _unlink(name, descriptor)


def _empty(top: int) -> None:
    """Remove everything below an open directory, and close it.

    Raises OSError, after which part of it may be gone.
    """
    # Trees may be deeper than Python's stack.
    descriptors = [top]
    try:
        levels = [_Level(top)]
        while levels:
            level = levels[-1]
            if not level.directories:
                levels.pop()
                os.close(descriptors.pop())
                if levels:
                    with suppress(FileNotFoundError):
                        os.rmdir(levels[-1].directories.pop(), dir_fd=levels[-1].descriptor)
                continue
            descriptor = _enter(level.directories[-1], level.descriptor)
            if descriptor is None:
                level.directories.pop()
            else:
                descriptors.append(descriptor)
                levels.append(_Level(descriptor))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _enter(name: bytes, directory: int) -> int | None:
    """Open a directory in an open one. Return None if it is gone; unlink what is no directory any more."""
    try:
        return os.open(name, _ENTER, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
    _unlink(name, directory)
    return None


def _unlink(name: bytes, directory: int) -> None:
    # Somebody else may be removing the same tree.
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)

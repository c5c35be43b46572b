"""Copying files, links and trees.

A link is copied as a link. Copying a file onto itself, under any name, does nothing. Inside a tree, neither
side follows links. Permissions are copied without the set-id bits; owners and times are those of a new file.
A tree is copied without its special files, such as sockets and devices.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

from paddock.errors import InvalidRequest
from paddock.fs.answer import Done
from paddock.fs.directory import make_with_parents
from paddock.fs.failure import map_os_error, read_only_before_rights
from paddock.fs.operation import Copy
from paddock.fs.set_id import clear_set_id

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_PERMISSIONS = 0o1777

_PIECE_BYTES = 1 << 20
_RANGE_BYTES = 1 << 30
_NO_RANGES = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)
"""Errors of copy_file_range where it can't be used (copy_file_range(2))."""


def copy(operation: Copy) -> Done:
    """Copy a file, link or tree. If copying a tree fails, the part copied so far stays."""
    source, destination = operation.source, operation.destination
    try:
        mode = os.lstat(source).st_mode
    except OSError as error:
        raise map_os_error(error, "copy", source) from error
    try:
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), destination)
        elif stat.S_ISREG(mode):
            _copy_file(source, None, destination, None)
        elif not stat.S_ISDIR(mode):
            raise InvalidRequest(
                f"can't copy {os.fsdecode(source)!r}: it is neither a file, a directory nor a symbolic link"
            )
        elif not operation.recursive:
            raise InvalidRequest(f"{os.fsdecode(source)!r} is a directory; set recursive: true to copy it")
        else:
            _refuse_descendant(source, destination)
            _copy_tree(source, destination)
    except OSError as error:
        raise map_os_error(error, f"copy {os.fsdecode(source)!r} to", destination) from error
    return Done()


# --- files ------------------------------------------------------------------


def _copy_file(source: bytes, source_in: int | None, destination: bytes, destination_in: int | None) -> None:
    """Copy a regular file; each path is relative to an open directory, if one is given."""
    reading = os.open(source, _READ, dir_fd=source_in)
    try:
        status = os.fstat(reading)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidRequest(f"{os.fsdecode(source)!r} is no longer a regular file; nothing was copied")
        flags = _WRITE | (0 if destination_in is None else os.O_NOFOLLOW)
        # Not O_TRUNC: source and destination may be the same file.
        with read_only_before_rights(destination, destination_in):
            writing = os.open(destination, flags, status.st_mode & 0o777, dir_fd=destination_in)
        try:
            existing = os.fstat(writing)
            if not stat.S_ISREG(existing.st_mode):
                raise InvalidRequest(f"destination {os.fsdecode(destination)!r} is not a regular file")
            if not os.path.samestat(status, existing):
                clear_set_id(writing, existing)
                os.ftruncate(writing, 0)
                _copy_content(reading, writing)
                os.fchmod(writing, status.st_mode & 0o777)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_content(reading: int, writing: int) -> None:
    try:
        while os.copy_file_range(reading, writing, _RANGE_BYTES):
            pass
    except OSError as error:
        if error.errno not in _NO_RANGES:
            raise
    # Copy the rest: everything if the kernel can't copy, and files of /proc, which report a size of 0.
    while piece := os.read(reading, _PIECE_BYTES):
        view = memoryview(piece)
        while view:
            view = view[os.write(writing, view) :]


# --- trees ------------------------------------------------------------------


def _refuse_descendant(source: bytes, destination: bytes) -> None:
    """Raise InvalidRequest if the destination is the source or would be below it."""
    top = os.stat(source)
    path = os.path.realpath(destination)
    while True:
        try:
            if os.path.samestat(top, os.stat(path)):
                raise InvalidRequest(
                    f"can't copy directory {os.fsdecode(source)!r} to itself or one of its descendants"
                )
        except (FileNotFoundError, NotADirectoryError):
            pass
        if path == b"/":
            return
        path = os.path.dirname(path)


class _Level:
    """A directory that is being copied. `close` must follow."""

    __slots__ = ("destination", "mode", "names", "source")

    def __init__(self, source: int, destination: int, *, is_new: bool) -> None:
        self.source = source
        self.destination = destination
        self.mode = os.fstat(source).st_mode & _PERMISSIONS if is_new else None
        """The mode that the copy will have in the end; None if the file existed before."""
        self.names: Iterator[bytes] = map(os.fsencode, os.listdir(source))

    def finish(self) -> None:
        """Give the directory its mode, now that it is complete."""
        # Last of all, because the mode may forbid writing to the directory.
        if self.mode is not None:
            os.fchmod(self.destination, self.mode)

    def close(self) -> None:
        """Close both ends."""
        os.close(self.source)
        os.close(self.destination)


def _copy_tree(source: bytes, destination: bytes) -> None:
    make_with_parents(os.path.dirname(destination.rstrip(b"/")) or b"/")
    levels = [_enter(source, None, destination, None)]
    try:
        while levels:
            level = levels[-1]
            name = next(level.names, None)
            if name is None:
                level.finish()
                levels.pop().close()
                continue
            mode = os.stat(name, dir_fd=level.source, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                levels.append(_enter(name, level.source, name, level.destination))
            elif stat.S_ISREG(mode):
                _copy_file(name, level.source, name, level.destination)
            elif stat.S_ISLNK(mode):
                os.symlink(os.readlink(name, dir_fd=level.source), name, dir_fd=level.destination)
    finally:
        for level in levels:
            level.close()


def _enter(source: bytes, source_in: int | None, destination: bytes, destination_in: int | None) -> _Level:
    """Open a directory and its copy; make the copy if it does not exist."""
    is_new = True
    try:
        # Nobody else may enter until it gets the mode of the source.
        os.mkdir(destination, 0o700, dir_fd=destination_in)
    except FileExistsError:
        is_new = False
    below = 0 if destination_in is None else os.O_NOFOLLOW
    reading = os.open(source, _ENTER | os.O_NOFOLLOW, dir_fd=source_in)
    try:
        writing = os.open(destination, _ENTER | below, dir_fd=destination_in)
    except BaseException:
        os.close(reading)
        raise
    try:
        return _Level(reading, writing, is_new=is_new)
    except BaseException:
        os.close(reading)
        os.close(writing)
        raise

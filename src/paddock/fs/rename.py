"""Renaming files and changing their modes."""

from __future__ import annotations

import os
import stat

from paddock.errors import InvalidRequest
from paddock.fs.answer import Done
from paddock.fs.failure import map_os_error
from paddock.fs.metadata import refuse_link
from paddock.fs.operation import ChangeMode, Rename
from paddock.fs.resolve import NameInDirectory, open_path, parent_of

MAX_MODE = 0o1777
"""Nobody may set set-user-ID or set-group-ID here: whoever runs such a file gets the rights of its owner."""


def rename(operation: Rename) -> Done:
    """Move a name to another place in the same file system, in one step.

    If both are hard links to one file, the old name is removed, in a second step.
    """
    try:
        with (
            parent_of(operation.source, follow=True) as old,
            parent_of(operation.destination, follow=True) as new,
        ):
            # rename(2) moves and replaces links themselves, not their targets.
            os.rename(old.name, new.name, src_dir_fd=old.directory, dst_dir_fd=new.directory)
            if _are_names_of_one_file(old, new):
                # Then rename(2) does nothing and reports success.
                os.unlink(old.name, dir_fd=old.directory)
    except OSError as error:
        missing = operation.source if not os.path.lexists(operation.source) else operation.destination
        raise map_os_error(
            error, "rename to" if missing is operation.destination else "rename", missing
        ) from error
    return Done()


def _are_names_of_one_file(one: NameInDirectory, other: NameInDirectory) -> bool:
    """Return whether two different names lead to one and the same file."""
    same_directory = os.path.samestat(os.fstat(one.directory), os.fstat(other.directory))
    # Where case is ignored, one name has many spellings, whatever other names the file has elsewhere.
    if same_directory and (one.name == other.name or not _are_listed(one.directory, one.name, other.name)):
        return False
    try:
        status, its = (
            os.stat(each.name, dir_fd=each.directory, follow_symlinks=False) for each in (one, other)
        )
    except FileNotFoundError:
        return False
    is_linked = status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)
    return is_linked and os.path.samestat(status, its)


def _are_listed(directory: int, *names: bytes) -> bool:
    """Return whether an open directory certainly has all of these names."""
    try:
        return set(names) <= set(os.listdir(f"/proc/self/fd/{directory}".encode()))
    except OSError:
        return False


def change_mode(operation: ChangeMode) -> Done:
    """Set the permissions of what a path leads to."""
    if not 0 <= operation.mode <= MAX_MODE:
        raise InvalidRequest(f"mode {operation.mode:o} is not between 0 and {MAX_MODE:o}")
    try:
        if operation.follow:
            os.chmod(operation.path, operation.mode)
        else:
            _change_mode_here(operation.path, operation.mode)
    except OSError as error:
        raise map_os_error(error, "change the mode of", operation.path) from error
    return Done()


def _change_mode_here(path: bytes, mode: int) -> None:
    """Set the permissions of what is at a path, no part of which may be a link."""
    descriptor = open_path(path, os.O_PATH, follow=False)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise refuse_link(path)
        # Before Linux 6.6 this is the only way to change a mode by a descriptor without reading rights.
        os.chmod(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)

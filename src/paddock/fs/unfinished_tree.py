"""The directory in which a tree is unpacked before it gets its name.

The unpacking process holds a lock on it, which the kernel drops when the process dies, however it dies. So an
unlocked directory with such a name was left by a killed server, and the next one that works in the same place
removes it.

It and the directory around it are used through descriptors: neither a change of the path nor another
directory of the same name redirects anything.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress

from paddock.fs.replacement import is_temporary

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_in(parent: int) -> tuple[bytes, int]:
    """Make a locked directory. Return its name, and the descriptor that holds the lock. Raises OSError."""
    _reclaim(parent)
    while True:
        name = b".paddock-" + os.urandom(8).hex().encode()
        os.mkdir(name, 0o700, dir_fd=parent)
        directory = os.open(name, _ENTER, dir_fd=parent)
        if _is_ours(directory, name, parent):
            return name, directory
        # Another process found it before it was locked and removed it.
        os.close(directory)


def remove(directory: int, name: bytes, parent: int) -> None:
    """Remove a directory that is locked, by the descriptor that holds the lock, which stays open.

    Needs two more descriptors, however deep the tree is: it moves the content of each directory to the top
    first. Raises OSError, after which part of it may be gone.
    """
    while entries := _entries(directory):
        for name_in, is_directory in entries:
            _remove_entry(directory, name_in, is_directory=is_directory)
    # If the name belongs to another directory by now, this removes it only if it is empty.
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)


def _entries(directory: int) -> list[tuple[bytes, bool]]:
    """List the names in an open directory, and whether they are directories."""
    with os.scandir(directory) as entries:
        return [(os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries]


def _remove_entry(top: int, name: bytes, *, is_directory: bool) -> None:
    # Somebody else may be removing the same tree.
    with suppress(FileNotFoundError):
        if not is_directory:
            os.unlink(name, dir_fd=top)
            return
        try:
            directory = os.open(name, _ENTER, dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            # It has become something else.
            os.unlink(name, dir_fd=top)
            return
        try:
            for each, is_deeper in _entries(directory):
                if is_deeper:
                    os.rename(each, os.urandom(16).hex(), src_dir_fd=directory, dst_dir_fd=top)
                else:
                    os.unlink(each, dir_fd=directory)
        finally:
            os.close(directory)
        os.rmdir(name, dir_fd=top)


def has_name(directory: int, name: bytes, parent: int) -> bool:
    """Return whether a name still leads to an open directory."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(directory), found)


def _is_ours(directory: int, name: bytes, parent: int) -> bool:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return has_name(directory, name, parent)


def _reclaim(parent: int) -> None:
    """Remove directories that were left behind, as far as this process can."""
    with suppress(OSError):
        listing = os.open(b".", _ENTER, dir_fd=parent)
        try:
            names = [os.fsencode(name) for name in os.listdir(listing)]
        finally:
            os.close(listing)
        for name in filter(is_temporary, names):
            _remove_unlocked(name, parent)


def _remove_unlocked(name: bytes, parent: int) -> None:
    with suppress(OSError):
        directory = os.open(name, _ENTER, dir_fd=parent)
        try:
            if _is_ours(directory, name, parent):
                remove(directory, name, parent)
        finally:
            os.close(directory)

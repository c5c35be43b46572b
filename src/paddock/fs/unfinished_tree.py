"""The directory in which a tree is put together before it gets its name.

Whoever puts it together holds a lock on it, which the kernel drops when that process dies,
however it dies: a directory of such a name that nobody has locked is what a killed server left
behind, and the next one that works in the same place removes it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress

from paddock.fs.remove import remove_tree
from paddock.fs.replacement import is_temporary

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_in(parent: bytes) -> tuple[bytes, int]:
    """A new directory that is locked: its path, and the descriptor that holds the lock. Raises OSError."""
    _reclaim(parent)
    while True:
        path = os.path.join(parent, b".paddock-" + secrets.token_hex(8).encode())
        os.mkdir(path, 0o700)
        directory = os.open(path, _ENTER)
        if _is_ours(directory, path):
            return path, directory
        # Somebody took it for left behind in the moment before it was locked.
        os.close(directory)


def _is_ours(directory: int, path: bytes) -> bool:
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(directory), os.lstat(path))
    except (BlockingIOError, FileNotFoundError):
        return False


def _reclaim(parent: bytes) -> None:
    """Remove what was left behind. What can't be removed is left to whoever can."""
    with suppress(OSError):
        for name in os.listdir(parent):
            if is_temporary(name):
                _remove_unlocked(os.path.join(parent, name))


def _remove_unlocked(path: bytes) -> None:
    with suppress(OSError):
        directory = os.open(path, _ENTER)
        try:
            if _is_ours(directory, path):
                remove_tree(path)
        finally:
            os.close(directory)

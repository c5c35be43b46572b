"""Locks a directory while a file in it is replaced, so that nothing comes between a last look and the rename.

The lock is the kernel's (flock(2)) on the directory itself. So it holds between threads, workers in their
sandboxes and other servers, leaves nothing behind, and ends with the process that holds it. Every other
program that can read the directory may hold it too, so nobody waits for it without a limit.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

WAIT_S = 2.0
"""How long to wait for the lock: far longer than Paddock holds it, which is for a few system calls."""

PAUSE_S = 0.001
"""Time between two attempts; `flock` itself knows no limit."""


class Lock(Enum):
    """What became of a lock."""

    HELD = auto()
    BUSY = auto()
    """Somebody else still holds it when the time is up."""
    NONE = auto()
    """The directory can't be listed, or its file system has no such locks; NFS is one."""


@contextmanager
def locked(directory: int | None) -> Iterator[Lock]:
    """Hold the lock of an open directory while the block runs, and say whether that is so.

    The descriptor must not be a duplicate: duplicates share one lock. None stands for a directory that can't
    be listed.
    """
    lock = Lock.NONE if directory is None else _locked(directory)
    try:
        yield lock
    finally:
        if directory is not None and lock is Lock.HELD:
            # Not only by closing: a child that is about to execute a program has copies of all descriptors.
            fcntl.flock(directory, fcntl.LOCK_UN)


def _locked(directory: int) -> Lock:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return Lock.BUSY
            time.sleep(PAUSE_S)
        except OSError:
            return Lock.NONE
        else:
            return Lock.HELD

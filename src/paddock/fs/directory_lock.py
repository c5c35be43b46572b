"""Locks a directory while a file in it is replaced, so that nothing comes between a last look and the rename.

The lock is the kernel's (flock(2)) on the directory itself. So it holds between threads, workers in their
sandboxes and other servers, leaves nothing behind, and ends with the process that holds it. Other programs
may hold it for long, as `flock . make` does, so nobody depends on it.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_S = 0.1
"""How long to wait for the lock: longer than Paddock holds it, which is for a few system calls and one more
look at a file of at most 8 MiB."""

PAUSE_S = 0.001
"""Time between two attempts; `flock` itself knows no limit."""


@contextmanager
def locked(directory: int | None) -> Iterator[None]:
    """Hold the lock of an open directory while the block runs, if it can be had.

    It can't be had where another program keeps it, nor on file systems without such locks, such as some NFS.
    The descriptor must not be a duplicate: duplicates share one lock. None stands for a directory that can't
    be listed.
    """
    is_held = directory is not None and _lock(directory)
    try:
        yield
    finally:
        if directory is not None and is_held:
            # Not only by closing: a child that is about to execute a program has copies of all descriptors.
            fcntl.flock(directory, fcntl.LOCK_UN)


def _lock(directory: int) -> bool:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(PAUSE_S)
        except OSError:
            return False
        else:
            return True

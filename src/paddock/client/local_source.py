"""Reads what this host sends to a server: files, and pipes and terminals that may say nothing for long.

No thread waits for a pipe or a terminal, because nobody could end that wait.
"""

from __future__ import annotations

import asyncio
import os
import stat

from paddock.client.thread_work import in_thread


def open_source(path: bytes) -> int:
    """Open a file for `next_piece`, and return the descriptor, for the caller to close."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    if not stat.S_ISREG(os.stat(path).st_mode):
        # Without it, to open a named pipe takes until somebody writes to it (fifo(7)).
        flags |= os.O_NONBLOCK
    return os.open(path, flags)


async def next_piece(descriptor: int, limit_bytes: int) -> bytes:
    """Wait for the next bytes of a file, a pipe or a terminal; none at its end.

    A cancelled call has read nothing from a pipe or a terminal.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        try:
            return await _piece_of_stream(descriptor, limit_bytes)
        except PermissionError:
            # epoll_ctl(2) refuses what never waits, such as /dev/zero.
            pass
    return await in_thread(os.read, descriptor, limit_bytes)


async def _piece_of_stream(descriptor: int, limit_bytes: int) -> bytes:
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    while True:
        loop.add_reader(descriptor, is_readable.set)
        try:
            await is_readable.wait()
        finally:
            loop.remove_reader(descriptor)
        try:
            return os.read(descriptor, limit_bytes)
        except BlockingIOError:
            # Somebody else who reads from it was faster.
            is_readable.clear()

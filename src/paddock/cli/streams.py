"""The standard streams and the terminal of this process, for verbs that pass them on.

Reads and writes never block the event loop and leave the flags of the streams alone,
which other programs share. The terminal is put back as it was whatever happens short
of SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.cli.descriptor import READ_BYTES, STDERR, STDIN, STDOUT
from paddock.model.terminal import DEFAULT_TERMINAL_SIZE, TerminalSize


def has_piped_input() -> bool:
    """Return whether standard input is a pipe, a socket or a file, and not a terminal or /dev/null."""
    try:
        return not stat.S_ISCHR(os.fstat(STDIN).st_mode)
    except OSError:
        return False


def window_size() -> TerminalSize:
    """Return the size of the terminal that one of the standard streams is, or a plain default."""
    for fd in (STDOUT, STDIN, STDERR):
        try:
            size = os.get_terminal_size(fd)
        except OSError:
            continue
        # A terminal that nobody sized reports 0 x 0 (ioctl_tty(2)).
        if size.lines and size.columns:
            return TerminalSize(rows=size.lines, cols=size.columns)
    return DEFAULT_TERMINAL_SIZE


@contextmanager
def raw_terminal(fd: int, wanted: bool) -> Iterator[None]:
    """Pass every byte as it is for the time of the block, if `fd` is a terminal."""
    if not wanted or not os.isatty(fd):
        yield
        return
    import termios
    import tty

    saved = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, saved)


async def read_input() -> bytes:
    """Read the next bytes of standard input, none at its end."""
    loop = asyncio.get_running_loop()
    try:
        if _is_null_device(STDIN):
            return b""
        if not _can_be_awaited(STDIN):
            return await loop.run_in_executor(None, os.read, STDIN, READ_BYTES)
        while True:
            ready = loop.create_future()
            loop.add_reader(STDIN, _resolve, ready)
            try:
                await ready
            finally:
                loop.remove_reader(STDIN)
            try:
                return os.read(STDIN, READ_BYTES)
            except BlockingIOError:
                # Another process that shares this input was faster.
                continue
    except OSError:
        # Closed, or a terminal that has hung up: there is no more input.
        return b""


def _is_null_device(fd: int) -> bool:
    """Return whether the descriptor is what programs without a person have for input (null(4))."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)


def _can_be_awaited(fd: int) -> bool:
    """Return whether epoll takes the descriptor; it refuses those that never block (epoll_ctl(2), EPERM)."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

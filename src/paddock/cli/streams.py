"""The standard streams and the terminal of this process, for verbs that pass them on.

Reads and writes never block the event loop and leave the flags of the streams alone,
which other programs share. The terminal is put back as it was whatever happens short
of SIGKILL.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from paddock.cli.descriptor import READ_BYTES, STDERR, STDIN, STDOUT
from paddock.client.local_source import next_piece
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
    """Read the next bytes of standard input, none at its end. Raises OSError if no thread can read a file."""
    try:
        return b"" if _is_null_device(STDIN) else await next_piece(STDIN, READ_BYTES)
    except BlockingIOError:
        # There is no room for the thread (EAGAIN): nothing was read, and this is not the end.
        raise
    except OSError:
        # Closed, or a terminal that has hung up: there is no more input.
        return b""


def _is_null_device(fd: int) -> bool:
    """Return whether the descriptor is what programs without a person have for input (null(4))."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)

"""Signals the end of input on a terminal, which has no end, only a character that stands for it.

In canonical mode the kernel takes VEOF for the end of a read, and for the end of the input
when the line is empty. A program that edits lines by itself (readline) switches that mode
off and takes the same character for the end of an empty line. A character sent before such
a program has switched reaches it as a NUL byte (n_tty.c), so `TerminalEnd` sends it again.

A shell also switches back and forth around each command, and the kernel delivers what we
write a little later, in whatever mode it finds then. So a program that edits lines gets the
character when two looks in a row show that it has read everything before.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios

LOOK_S = 0.05
"""How often to look at the mode and the unread input: the kernel does not report changes."""

DEFAULT_END = b"\x04"
"""Ctrl-D, VEOF of a fresh terminal (termios(3))."""

TIOCGPTPEER = 0x5441
"""Opens the other side of a terminal, wherever its name leads (ioctl_tty(2)); not in `termios` yet."""

_LOCAL_FLAGS = 3
_CHARACTERS = 6
"""Index of the control characters in the result of `termios.tcgetattr`."""


class TerminalEnd:
    """Signals the end of the input to the programs that read a terminal.

    `fd` is the master side. The caller keeps it, and calls `close` before closing it.
    `is_at_line_start` says whether the input so far ends with a whole line.
    """

    def __init__(self, fd: int, *, is_at_line_start: bool) -> None:
        self._fd = fd
        self._is_at_line_start = is_at_line_start
        self._timer: asyncio.TimerHandle | None = None
        self._has_sent_canonical = False
        self._had_read_all = False

    def begin(self) -> None:
        """Send the end as soon as the mode allows, and again if the mode changes."""
        # EAGAIN: the terminal is full of input that nobody reads; the next look tries again.
        # EIO: nobody holds its other side, but somebody may open it again.
        with contextlib.suppress(OSError):
            if self._send():
                return
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self.begin)

    def close(self) -> None:
        """Stop: nobody reads any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> bool:
        """Send what the present mode needs. Return True if no later mode can need more."""
        attributes = termios.tcgetattr(self._fd)
        character = attributes[_CHARACTERS][termios.VEOF]
        if character == b"\0":
            # Switched off (_POSIX_VDISABLE).
            character = DEFAULT_END
        if not attributes[_LOCAL_FLAGS] & termios.ICANON:
            had_read_all = self._had_read_all
            self._had_read_all = _count_unread(self._fd) == 0
            if not (had_read_all and self._had_read_all):
                return False
            os.write(self._fd, character)
            return True
        self._had_read_all = False
        if not self._has_sent_canonical:
            # In the middle of a line the first character only completes the read.
            os.write(self._fd, character if self._is_at_line_start else character * 2)
            self._has_sent_canonical = True
        return False


def _count_unread(master: int) -> int:
    """Count the bytes of input that no program has read yet; none if the terminal won't tell."""
    try:
        slave = fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        # EBUSY: a program keeps the terminal for itself (TIOCEXCL).
        return 0
    try:
        answer = fcntl.ioctl(slave, termios.FIONREAD, struct.pack("i", 0))
    finally:
        os.close(slave)
    return int(struct.unpack("i", answer)[0])

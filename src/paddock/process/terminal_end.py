"""Signals the end of input on a terminal, which has no end, only a character that stands for it.

In canonical mode the kernel takes VEOF for the end of a read, and for the end of the input
when the line is empty. A program that edits lines by itself (readline) switches that mode
off and takes the same character for the end of an empty line. A character sent before such
a program has switched reaches it as a NUL byte (n_tty.c), so `TerminalEnd` sends it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios

MODE_CHECK_S = 0.05
"""How often to check whether a program has left canonical mode: the kernel does not report it."""

DEFAULT_END = b"\x04"
"""Ctrl-D, VEOF of a fresh terminal (termios(3))."""

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

    def begin(self) -> None:
        """Send the end now, and again if the mode changes."""
        # EAGAIN: the terminal is full of input that nobody reads; the next check tries again.
        # EIO: nobody holds its other side, but somebody may open it again.
        with contextlib.suppress(OSError):
            if self._send():
                return
        self._timer = asyncio.get_running_loop().call_later(MODE_CHECK_S, self.begin)

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
            os.write(self._fd, character)
            return True
        if not self._has_sent_canonical:
            # In the middle of a line the first character only completes the read.
            os.write(self._fd, character if self._is_at_line_start else character * 2)
            self._has_sent_canonical = True
        return False

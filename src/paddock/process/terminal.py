"""Pseudo-terminals: the pair, and its window size."""

from __future__ import annotations

import os

from paddock.model.terminal import TerminalSize


def open_terminal(size: TerminalSize) -> tuple[int, int]:
    """Open a new terminal of this size. Return the master and the slave side; the caller owns both."""
    master, slave = os.openpty()
    try:
        resize_terminal(master, size)
    except OSError:
        os.close(master)
        os.close(slave)
        raise
    return master, slave


def window_size(fd: int) -> TerminalSize | None:
    """Return the window size of a terminal; None when somebody has set it to nothing."""
    import termios

    rows, cols = termios.tcgetwinsize(fd)
    return TerminalSize(rows, cols) if rows and cols else None


def resize_terminal(fd: int, size: TerminalSize) -> None:
    """Set the window size; the kernel sends SIGWINCH to the foreground group (ioctl_tty(2))."""
    import termios

    termios.tcsetwinsize(fd, (size.rows, size.cols))

"""A terminal that a confined command has as a standard stream, and what the command leaves changed there.

The command is in a session of its own: the kernel does not stop it, as it would a job in the background, when
it changes a terminal that others use too. Its size is left alone: the user may have changed it meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from paddock.cli.descriptor import STDIN, STDOUT

ACCESS_LIST: Final = "system.posix_acl_access"
"""See acl(5)."""
F_SETSIG: Final = 10
F_GETSIG: Final = 11
"""See fcntl(2); not in `fcntl` before Python 3.12."""
TIOCGPKT: Final = 0x80045438
"""Asks a master whether it is in packet mode (ioctl_tty(2)); not in `termios`."""


def is_master(fd: int) -> bool:
    """Return whether a terminal is the master of a pseudo-terminal, which alone has a packet mode."""
    try:
        fcntl.ioctl(fd, TIOCGPKT, bytes(4))
    except OSError:
        return False
    return True


class ConfinedTerminal:
    """A terminal as it was before the command. Call `restore` when nothing of the command lives any more."""

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self._fd = fd
        self._group = status.st_gid
        self._mode = stat.S_IMODE(status.st_mode)
        self._list = _access_list(fd)
        self._flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        self._signal = fcntl.fcntl(fd, F_GETSIG)
        self._settings = termios.tcgetattr(fd)

    def restore(self) -> None:
        """Undo what the command did. A terminal that has hung up needs nothing."""
        # First: until then, whoever writes there waits, Paddock included.
        with suppress(termios.error, OSError), _unstopped():
            # Undoes tcflow(3) alone: what the user has stopped at the keyboard stays so.
            termios.tcflow(self._fd, termios.TCOON)
            if self._has_alone() and termios.tcgetattr(self._fd) != self._settings:
                # Not after all output, as is usual: that could wait for ever.
                termios.tcsetattr(self._fd, termios.TCSANOW, self._settings)
        with suppress(OSError):
            fcntl.fcntl(self._fd, fcntl.F_SETFL, self._flags)
            # The next program that asks for SIGIO would get the signal of the command's choice.
            fcntl.fcntl(self._fd, F_SETSIG, self._signal)
            mode = self._mode
            if os.fstat(self._fd).st_gid != self._group and not self._give_back():
                # Nobody of the other group may read what is typed, or write there.
                mode &= ~stat.S_IRWXG
            if _access_list(self._fd) != self._list:
                self._restore_list()
            if stat.S_IMODE(os.fstat(self._fd).st_mode) != mode:
                os.fchmod(self._fd, mode)

    def _has_alone(self) -> bool:
        """Return whether no other program can be expected to have changed the settings for itself.

        A pager that reads our output has, and so has the shell where this is a job in the background.
        """
        if not all(map(os.isatty, (STDIN, STDOUT))):
            return False
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            # It belongs to no session, or to another than ours.
            return True

    def _give_back(self) -> bool:
        """Give it to its group again, which a user who is not in that group can't."""
        try:
            os.fchown(self._fd, -1, self._group)
        except PermissionError:
            return False
        return True

    def _restore_list(self) -> None:
        if self._list is None:
            os.removexattr(self._fd, ACCESS_LIST)
        else:
            os.setxattr(self._fd, ACCESS_LIST, self._list)


def _access_list(fd: int) -> bytes | None:
    """Return the list of those who may use a device, besides its mode; consoles can have one."""
    try:
        return os.getxattr(fd, ACCESS_LIST)
    except OSError:
        return None


@contextmanager
def _unstopped() -> Iterator[None]:
    """Change a terminal though another job has it: the kernel stops who does not block this signal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

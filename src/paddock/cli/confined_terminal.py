"""A terminal that a confined command has as a standard stream, and what the command leaves changed there.

The command is in a session of its own: the kernel does not stop it, as it would a job in the background, when
it changes a terminal that others use too. Its size is left alone: the user may have changed it meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import stat
import termios
from contextlib import contextmanager, suppress

from paddock.cli.descriptor import STDIN, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator
    from typing import Any, Final
else:
    # What `signal` adds to it takes longer to load than all else here.
    import _signal as signal

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
    """A terminal as it was before the command. Call `restore` when nothing of the command lives any more.

    While the command is stopped, others have the terminal: call `note_changes` and `restore` before that, and
    `reapply_changes` afterwards.
    """

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self.fd = fd
        self._group = status.st_gid
        self._mode = stat.S_IMODE(status.st_mode)
        self._list = _access_list(fd)
        self._flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        self._signal = fcntl.fcntl(fd, F_GETSIG)
        self._settings = termios.tcgetattr(fd)
        self._changed: tuple[int, list[Any] | None] | None = None

    def note_changes(self) -> None:
        """Remember how the command has the terminal."""
        with suppress(termios.error, OSError):
            settings = termios.tcgetattr(self.fd) if self._has_alone() else None
            self._changed = fcntl.fcntl(self.fd, fcntl.F_GETFL), settings

    def reapply_changes(self) -> None:
        """Give the command the terminal as it had it. One that has hung up needs nothing."""
        if self._changed is None:
            return
        (flags, settings), self._changed = self._changed, None
        with suppress(termios.error, OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETFL, flags)
            if settings is not None:
                termios.tcsetattr(self.fd, termios.TCSANOW, settings)

    def restore(self) -> None:
        """Undo what the command did. A terminal that has hung up needs nothing."""
        # First: until then, whoever writes there waits, Paddock included.
        with suppress(termios.error, OSError), _unstopped():
            # Undoes tcflow(3) alone: what the user has stopped at the keyboard stays so.
            termios.tcflow(self.fd, termios.TCOON)
            if self._has_alone() and termios.tcgetattr(self.fd) != self._settings:
                # Not after all output, as is usual: that could wait for ever.
                termios.tcsetattr(self.fd, termios.TCSANOW, self._settings)
        with suppress(OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETFL, self._flags)
            # The next program that asks for SIGIO would get the signal of the command's choice.
            fcntl.fcntl(self.fd, F_SETSIG, self._signal)
            mode = self._mode
            if os.fstat(self.fd).st_gid != self._group and not self._give_back():
                # Nobody of the other group may read what is typed, or write there.
                mode &= ~stat.S_IRWXG
            if _access_list(self.fd) != self._list:
                self._restore_list()
            if stat.S_IMODE(os.fstat(self.fd).st_mode) != mode:
                os.fchmod(self.fd, mode)

    def _has_alone(self) -> bool:
        """Return whether no other program can be expected to have changed the settings for itself.

        A pager that reads our output has, and so has the shell where this is a job in the background.
        """
        if not all(map(os.isatty, (STDIN, STDOUT))):
            return False
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            # It belongs to no session, or to another than ours.
            return True

    def _give_back(self) -> bool:
        """Give it to its group again, which a user who is not in that group can't."""
        try:
            os.fchown(self.fd, -1, self._group)
        except PermissionError:
            return False
        return True

    def _restore_list(self) -> None:
        if self._list is None:
            os.removexattr(self.fd, ACCESS_LIST)
        else:
            os.setxattr(self.fd, ACCESS_LIST, self._list)


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

"""Stops and continues a confined command together with this process, as a job of a shell.

A command that has a terminal as a standard stream is in a session of its own, out of reach of job control: it
would read there what is typed for the shell. So it runs only while this process may read the terminal: it is
stopped before this process stops, and it goes on when this process is in the foreground again. A signal that
tells a job in the background to end can't reach it, so it is killed then.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from paddock.cli.confined import CommandSignals
    from paddock.cli.confined_terminal import ConfinedTerminal
    from paddock.sandbox.enforce.confined import Confined
else:
    # What `signal` adds to it takes longer to load than all else here.
    import _signal as signal


def is_in_background(terminal: int) -> bool:
    """Return whether this process is a job in the background of a terminal, which it must not read then.

    On a terminal that is not its own, it is no job of any shell.
    """
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:
        return False


@contextmanager
def unstopped() -> Iterator[None]:
    """Let no shell stop this process before the end of the block, except in `stopped_together`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def stopped_together(
    confined: Confined, terminals: Sequence[ConfinedTerminal], signals: CommandSignals
) -> Iterator[None]:
    """Let a shell stop this process for the time of the block, and with it the command with these terminals.

    The command must have been started. Without terminals it goes on, and so does one without a pid namespace.
    A signal that tells it to end while it may not go on kills it.
    """

    def stop(number: int, _: FrameType | None) -> None:
        # A second signal would take the report that this waits for. Until the end of the block both are one.
        with unstopped():
            signals.forget()
            confined.suspend()
            # Several may be one and the same.
            for terminal in terminals:
                terminal.note_changes()
            for terminal in terminals:
                terminal.restore()
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        while any(is_in_background(terminal.fd) for terminal in terminals):
            if signals.end_if_told():
                return
            # The shell has continued this job in the background. Unlike SIGTTIN, this signal also stops a
            # process that no shell looks after any more.
            signal.raise_signal(signal.SIGSTOP)
        signal.signal(number, stop)
        for terminal in terminals:
            terminal.reapply_changes()
        confined.resume()

    before = signal.getsignal(signal.SIGTSTP)
    if terminals and confined.has_view and before != signal.SIG_IGN:
        signal.signal(signal.SIGTSTP, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
        signal.signal(signal.SIGTSTP, before)

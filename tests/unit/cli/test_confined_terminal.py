"""What a confined command leaves at a terminal is undone, and what others do there is not."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import termios
from collections.abc import Callable

import pytest

from paddock.cli.confined_terminal import F_GETSIG, F_SETSIG, ConfinedTerminal, is_master


def test_only_one_end_of_a_terminal_is_the_master() -> None:
    leader, follower = os.openpty()
    reader, writer = os.pipe()
    try:
        assert [is_master(fd) for fd in (leader, follower, reader)] == [True, False, False]
    finally:
        for fd in (leader, follower, reader, writer):
            os.close(fd)


def _in_session_of_terminal(act: Callable[[], bool]) -> bool:
    """Return what a function says in a process that has a new terminal as its own."""
    pid, leader = pty.fork()
    if pid == 0:
        status = 2
        try:
            status = 0 if act() else 1
        finally:
            os._exit(status)
    try:
        # One that is stopped, as jobs in the background are, is seen as such.
        return os.waitpid(pid, os.WUNTRACED)[1] == 0
    finally:
        os.close(leader)


def _restores(*, in_background: bool) -> bool:
    if in_background:
        group = os.fork()
        if group:
            return os.waitpid(group, os.WUNTRACED)[1] == 0
        os.setpgid(0, 0)
        os._exit(0 if _leaves_settings_and_lets_output_go_on() else 1)
    terminal = ConfinedTerminal(0, os.fstat(0))
    before = termios.tcgetattr(0)
    _stop_echo(0)
    terminal.restore()
    return termios.tcgetattr(0) == before


def _leaves_settings_and_lets_output_go_on() -> bool:
    terminal = ConfinedTerminal(0, os.fstat(0))
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    _stop_echo(0)
    termios.tcflow(0, termios.TCOOFF)
    changed = termios.tcgetattr(0)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    was_stopped = not _takes_output(0)
    terminal.restore()
    return was_stopped and _takes_output(0) and termios.tcgetattr(0) == changed


def _stop_echo(fd: int) -> None:
    settings = termios.tcgetattr(fd)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(fd, termios.TCSANOW, settings)


def _takes_output(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


@pytest.mark.parametrize("in_background", [False, True])
def test_settings_are_restored_only_by_the_job_that_has_the_terminal(in_background: bool) -> None:
    assert _in_session_of_terminal(lambda: _restores(in_background=in_background))


def test_open_file_sends_the_signal_that_it_sent_before() -> None:
    leader, follower = os.openpty()
    try:
        terminal = ConfinedTerminal(follower, os.fstat(follower))
        fcntl.fcntl(follower, F_SETSIG, signal.SIGKILL)
        terminal.restore()
        assert fcntl.fcntl(follower, F_GETSIG) == 0
    finally:
        os.close(leader)
        os.close(follower)


def test_terminal_that_has_hung_up_is_left_alone() -> None:
    leader, follower = os.openpty()
    try:
        terminal = ConfinedTerminal(follower, os.fstat(follower))
        os.close(leader)
        terminal.restore()
    finally:
        os.close(follower)

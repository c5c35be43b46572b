"""When the end of its input reaches a program that edits its lines by itself."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import termios
import tty
from collections.abc import Iterator

import pytest

from paddock.process.terminal_end import LOOK_S, TerminalEnd


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two sides of a terminal in raw mode, the master first."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(slave, False)
    yield master, slave
    os.close(master)
    os.close(slave)


async def read(slave: int) -> bytes:
    """What the program reads next."""
    while True:
        try:
            return os.read(slave, 100)
        except BlockingIOError:
            await asyncio.sleep(0.001)


async def test_the_end_waits_for_a_line_that_the_program_has_not_read(terminal: tuple[int, int]) -> None:
    """Having read it, a shell leaves this mode for a while, and the end would be lost."""
    master, slave = terminal
    os.write(master, b"line\n")
    select.select([slave], [], [])
    end = TerminalEnd(master, is_at_line_start=True)
    end.begin()
    await asyncio.sleep(4 * LOOK_S)

    assert await read(slave) == b"line\n"
    assert await read(slave) == b"\x04"
    end.close()


async def test_the_end_reaches_a_program_that_keeps_the_terminal_for_itself(
    terminal: tuple[int, int],
) -> None:
    """The kernel lets only root look at what is unread then."""
    master, slave = terminal
    fcntl.ioctl(slave, termios.TIOCEXCL)
    end = TerminalEnd(master, is_at_line_start=True)
    end.begin()

    assert await read(slave) == b"\x04"
    end.close()

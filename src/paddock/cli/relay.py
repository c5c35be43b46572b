"""Between this process's streams and a process on a server, for `paddock run`.

Bytes pass unchanged. Reads and writes never block the event loop and leave the
flags of the standard streams alone, which other programs share. The terminal is
put back as it was whatever happens short of SIGKILL.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import termios
import tty
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from paddock.client.process import Process
from paddock.errors import CapabilityMissing, PaddockError
from paddock.model.stream import Stream
from paddock.model.terminal import DEFAULT_TERMINAL_SIZE, TerminalSize

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2

READ_BYTES: Final = 64 * 1024
"""What a pipe holds by default (pipe(7))."""

PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

STATUS_BROKEN_PIPE: Final = 128 + signal.SIGPIPE
STATUS_OF_OUR_OWN: Final = 125


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status to exit with, and what went wrong, if it is for the user to know."""

    status: int
    problem: str | None = None


class Relay:
    """Joins one process to the standard streams until it has closed."""

    def __init__(self, process: Process, *, is_terminal: bool, has_stdin: bool) -> None:
        self._process = process
        self._is_terminal = is_terminal
        self._has_stdin = has_stdin
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        # Writing to a pipe or a terminal blocks for as long as its reader likes.
        self._writer = ThreadPoolExecutor(1, "stdout")

    async def run(self) -> Outcome:
        """Pass everything on until the end of the output; a second call makes no sense."""
        with self._writer, self._caught_signals(), raw_terminal(STDIN, self._is_terminal):
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(self._pass_signals())]
                if self._has_stdin:
                    helpers.append(tasks.create_task(self._pass_input()))
                outcome = await self._pass_output()
                for helper in helpers:
                    helper.cancel()
        return outcome

    # --- output -------------------------------------------------------------

    async def _pass_output(self) -> Outcome:
        loop = asyncio.get_running_loop()
        try:
            async for output in self._process:
                fd = STDERR if output.stream is Stream.STDERR else STDOUT
                await loop.run_in_executor(self._writer, _write_all, fd, output.data)
            return Outcome(await self._process.wait())
        except BrokenPipeError:
            # A program that ran here would be killed by SIGPIPE without a word.
            self._process.kill_now()
            return Outcome(STATUS_BROKEN_PIPE)
        except OSError as error:
            self._process.kill_now()
            return Outcome(STATUS_OF_OUR_OWN, f"can't write the output: {error.strerror}")
        except PaddockError as error:
            return Outcome(STATUS_OF_OUR_OWN, str(error))

    # --- input --------------------------------------------------------------

    async def _pass_input(self) -> None:
        try:
            while data := await _read_input():
                await self._process.write(data)
            await self._process.close_stdin()
        except PaddockError:
            # The process has closed its input; or the connection is lost, and the output will tell.
            pass

    # --- signals ------------------------------------------------------------

    @contextmanager
    def _caught_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        # Who started us with a signal ignored, as nohup(1) does, wants it ignored.
        caught = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
        if self._is_terminal:
            caught.append(signal.SIGWINCH)
        for number in caught:
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        if self._is_terminal:
            # The window may have changed between the start and now.
            self._signals.put_nowait(signal.SIGWINCH)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    async def _pass_signals(self) -> None:
        while True:
            number = await self._signals.get()
            try:
                if number is signal.SIGWINCH:
                    size = window_size()
                    await self._process.resize(size.rows, size.cols)
                else:
                    await self._process.signal(number)
            except CapabilityMissing:
                if number is not signal.SIGWINCH:
                    # The server can't pass it on, but whoever sent it wants this to end.
                    self._process.kill_now()
            except PaddockError:
                # The process has ended, or the connection is lost: the output tells which.
                pass


def has_piped_input() -> bool:
    """Whether standard input is a pipe, a socket or a file, and not a terminal or /dev/null."""
    try:
        return not stat.S_ISCHR(os.fstat(STDIN).st_mode)
    except OSError:
        return False


def window_size() -> TerminalSize:
    """The size of the terminal that one of the standard streams is, or a plain default."""
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
    """Every byte passes as it is for the time of the block, if `fd` is a terminal."""
    if not wanted or not os.isatty(fd):
        yield
        return
    saved = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, saved)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


async def _read_input() -> bytes:
    """The next bytes of standard input, none at its end."""
    loop = asyncio.get_running_loop()
    try:
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


def _can_be_awaited(fd: int) -> bool:
    """Whether epoll takes the descriptor; it refuses those that never block (epoll_ctl(2), EPERM)."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

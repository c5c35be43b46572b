"""Between this process's streams and a process on a server, for `paddock run`.

Bytes pass unchanged, signals reach the process, and its terminal has the size of
this one. How the standard streams are read and written is the business of `streams`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from paddock.cli.descriptor import STDERR, STDIN, STDOUT, write_all
from paddock.cli.streams import raw_terminal, read_input, window_size
from paddock.client.process import Process
from paddock.errors import CapabilityMissing, PaddockError
from paddock.model.stream import Stream

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
                await loop.run_in_executor(self._writer, write_all, fd, output.data)
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
            while data := await read_input():
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

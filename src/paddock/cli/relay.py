"""Connects this process's streams to a process on a server, for `paddock run`.

Bytes pass unchanged, signals reach the process, and its terminal has the size of this one. `streams` reads
and writes the standard streams.

A process may leave others behind that hold its output. This waits for them too: they may be on their way to
their own end. But no signal reaches them from here, so once the process has ended, a signal to end is for
this one. The status stays that of the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from paddock.cli import exit_status
from paddock.cli.descriptor import STDERR, STDIN, STDOUT, write_all
from paddock.cli.input_queue import InputQueue
from paddock.cli.signal_reader import signals_read
from paddock.cli.signal_set import LEAVING, PASSED_ON, not_ignored
from paddock.cli.streams import raw_terminal, read_input, window_size
from paddock.cli.terminal_modes import TerminalModes
from paddock.client.process import Process
from paddock.errors import CapabilityMissing, PaddockError
from paddock.model.stream import Stream

if TYPE_CHECKING:
    from paddock.cli.connection_watch import ConnectionWatch
    from paddock.cli.exec_prompt import ExecPrompt
    from paddock.cli.output_writer import OutputWriter

PAUSE_S: Final = 0.2
"""The rest of a command's output comes without such a pause, unless its reader is stuck: the server has it
already, and a link takes a fraction of that."""

REST_S: Final = 2.0
"""How long that rest may take in all, where others write without end."""

INPUT_BYTES: Final = 64 * 1024
"""Input that waits for the process, and that is sent at once: one pipe's capacity (pipe(7))."""


class Outcome(Struct, frozen=True):
    """The status to exit with, and what went wrong, if the user must know."""

    status: int
    problem: str | None = None


class Relay:
    """Joins one process to the standard streams until it has closed."""

    def __init__(
        self,
        process: Process,
        *,
        is_terminal: bool,
        has_stdin: bool,
        prompt: ExecPrompt | None = None,
        watch: ConnectionWatch | None = None,
    ) -> None:
        self._prompt = prompt
        self._watch = watch
        self._modes = TerminalModes()
        self._process = process
        self._is_terminal = is_terminal
        self._has_stdin = has_stdin
        self.is_left = False
        """Whether this has ended because a signal said so, and not with the output."""
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        self._input = InputQueue(INPUT_BYTES)
        self._writer: OutputWriter | None = None
        self._ending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        """Set where this ends before the output does."""
        self._piece_count = 0
        """Pieces of output that are written."""

    async def run(self) -> Outcome:
        """Pass everything on until the end of the output; a second call makes no sense."""
        with self._ended_writer(), self._caught_signals(), raw_terminal(STDIN, self._is_terminal):
            if self._watch is not None:
                self._watch.is_raw = self._is_terminal
                self._watch.is_over = lambda: self._process.is_closed
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(self._pass_signals())]
                if self._has_stdin:
                    helpers.append(tasks.create_task(self._take_input()))
                    helpers.append(tasks.create_task(self._send_input()))
                output = tasks.create_task(self._pass_output())
                outcome = await self._until_end(output)
                for helper in (*helpers, output):
                    helper.cancel()
            self._put_back_terminal()
        return outcome

    async def _until_end(self, output: asyncio.Task[Outcome]) -> Outcome:
        """Wait for the end of the output, for what ends this before, or for a user who gives up."""
        ends = {output, self._ending} | (set() if self._watch is None else {self._watch.given_up})
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if output.done():
            return await output
        if self._ending.done():
            await self._rest_of(output)
            return await self._ending
        problem = "gave up; the command may run until its server ends the session"
        return Outcome(exit_status.INTERRUPTED, problem)

    async def _rest_of(self, output: asyncio.Task[Outcome]) -> None:
        """Wait for what the process itself has written, as far as somebody reads it."""
        count = -1
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_S):
                while not output.done() and count != self._piece_count:
                    count = self._piece_count
                    await asyncio.wait((output,), timeout=PAUSE_S)

    def _finish(self, outcome: Outcome) -> None:
        if not self._ending.done():
            self._ending.set_result(outcome)

    def _put_back_terminal(self) -> None:
        if self._is_terminal and (restoring := self._modes.restoring()):
            with suppress(OSError):
                write_all(STDOUT, restoring)

    # --- output -------------------------------------------------------------

    async def _pass_output(self) -> Outcome:
        try:
            async for output in self._process:
                fd = STDERR if output.stream is Stream.STDERR else STDOUT
                # No output may surround or overwrite an open question.
                self._modes.feed(output.data)
                async with self._screen(fd):
                    await self._started_writer().write(fd, output.data)
                self._piece_count += 1
            return Outcome(exit_status.of_command(await self._process.wait()))
        except BrokenPipeError:
            # A program that ran here would be killed by SIGPIPE without a word.
            self._process.kill_now()
            return Outcome(exit_status.BROKEN_PIPE)
        except PaddockError as error:
            return Outcome(exit_status.OWN_FAILURE, str(error))
        except OSError as error:
            self._process.kill_now()
            return Outcome(exit_status.OWN_FAILURE, f"can't write the output: {error.strerror}")

    def _started_writer(self) -> OutputWriter:
        if self._writer is None:
            from paddock.cli.output_writer import OutputWriter

            self._writer = OutputWriter()
        return self._writer

    @contextmanager
    def _ended_writer(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self._writer is not None:
                self._writer.close()

    def _screen(self, fd: int) -> AbstractAsyncContextManager[object]:
        return nullcontext() if self._prompt is None or not os.isatty(fd) else self._prompt.screen

    # --- input --------------------------------------------------------------

    async def _take_input(self) -> None:
        """Read what is typed, always: an answer, or the wish to give up, must not wait for the process."""
        try:
            while data := await read_input():
                # What is typed while a question is open is the answer.
                if self._prompt is not None and self._prompt.feed(data):
                    continue
                if self._is_terminal and self._watch is not None and self._watch.typed(data):
                    continue
                await self._input.put(data)
            self._input.end()
        except OSError as error:
            self._process.kill_now()
            self._finish(Outcome(exit_status.OWN_FAILURE, f"can't read the input: {error.strerror}"))

    async def _send_input(self) -> None:
        try:
            while data := await self._input.get(INPUT_BYTES):
                await self._process.write(data)
            await self._process.close_stdin()
        except PaddockError:
            # The process has closed its input; or the connection is lost, and the output will tell.
            pass

    # --- signals ------------------------------------------------------------

    def _caught_signals(self) -> AbstractContextManager[None]:
        numbers = not_ignored(PASSED_ON)
        if self._is_terminal:
            numbers.append(signal.SIGWINCH)
            # The window may have changed between the start and now.
            self._signals.put_nowait(signal.SIGWINCH)
        return signals_read(numbers, self._caught)

    def _caught(self, number: signal.Signals) -> None:
        if self._watch is not None and self._watch.signalled(number):
            return
        status = self._process.exit_code
        if status is None or number not in LEAVING:
            self._signals.put_nowait(number)
        else:
            self.is_left = True
            self._finish(Outcome(exit_status.of_command(status)))

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
                    # The server can't pass it on, but its sender wants this to end.
                    self._process.kill_now()
            except PaddockError:
                # The process has ended, or the connection is lost: the task that reads the output finds out
                # which.
                pass

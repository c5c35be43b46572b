"""Connects this terminal to a process that somebody else started, for `paddock attach`.

It shows the newest output that the server still has, then new output as it arrives. Leaving changes nothing:
the process keeps running with the window size it had. Knows the process only through its operator's handle.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

from paddock.cli import exit_status
from paddock.cli.descriptor import STDERR, STDIN, STDOUT, write_all
from paddock.cli.detach_keys import KeyWatch
from paddock.cli.input_queue import InputQueue
from paddock.cli.message import bracketed, tell
from paddock.cli.output_writer import OutputWriter
from paddock.cli.relay import Outcome
from paddock.cli.signal_set import LEAVING, not_ignored
from paddock.cli.streams import has_piped_input, raw_terminal, read_input, window_size
from paddock.cli.tail import ByteTail, Piece
from paddock.cli.terminal_modes import TerminalModes
from paddock.client.operator import OperatedProcess, pieces
from paddock.errors import InvalidRequest, PaddockError
from paddock.model.stream import Stream
from paddock.model.terminal import TerminalSize
from paddock.protocol.control import ProcessStatus
from paddock.protocol.process import OutputGap, ReadResult

REPLAY_BYTES: Final = 64 * 1024
"""Output shown from before: several screens of any terminal."""

PENDING_INPUT_BYTES: Final = 1 << 20
"""Input that waits while the process does not read: more than anybody types, and than most paste."""

WRITE_BYTES: Final = 64 * 1024
"""Input sent at once, one pipe's capacity (pipe(7))."""

DETACH_TIMEOUT_S: Final = 1.0
"""How long a user who wants to leave is held up by a process that does not read, or a server that hangs."""

BELL: Final = b"\a"
INTERRUPT_KEY: Final = b"\x03"


class Attachment:
    """One visit to a process. `run` it once."""

    def __init__(
        self, process: OperatedProcess, status: ProcessStatus, *, detach_keys: bytes, is_read_only: bool
    ) -> None:
        self._process = process
        self._status = status
        self._is_read_only = is_read_only
        self._is_interactive = status.tty and os.isatty(STDIN)
        self._has_window = self._is_interactive and os.isatty(STDOUT) and status.running and not is_read_only
        self._watch = KeyWatch(detach_keys)
        self._ending: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._is_detached = False
        self._modes = TerminalModes()
        self._input = InputQueue(PENDING_INPUT_BYTES)
        self._window_changed = asyncio.Event()
        self._writer = OutputWriter()

    @property
    def is_detached(self) -> bool:
        """Return whether the user left while the process, as far as is known, kept running."""
        return self._is_detached

    async def run(self) -> Outcome:
        """Pass everything on until the process has closed or the user leaves."""
        with closing(self._writer), self._caught_signals(), raw_terminal(STDIN, self._is_interactive):
            async with asyncio.TaskGroup() as tasks:
                helpers = [tasks.create_task(work) for work in self._works()]
                outcome = await self._ending
                for helper in helpers:
                    helper.cancel()
            if self._is_detached:
                await self._restore_and_flush()
            if self._is_interactive and (restoring := self._modes.restoring()):
                with suppress(OSError):
                    write_all(STDOUT, restoring)
        return outcome

    def _works(self) -> list[Coroutine[Any, Any, None]]:
        works = [self._pass_output()]
        if self._is_interactive or not self._is_read_only:
            works.append(self._take_input())
        if not self._is_read_only:
            works.append(self._send_input())
        if self._has_window:
            works.append(self._pass_window())
        return works

    def _finish(self, outcome: Outcome) -> None:
        if not self._ending.done():
            self._ending.set_result(outcome)

    def _detach(self, status: int = 0) -> None:
        if not self._ending.done():
            self._is_detached = True
            self._ending.set_result(Outcome(status))

    # --- output -------------------------------------------------------------

    async def _pass_output(self) -> None:
        try:
            shown = await self._replay()
            async for page in self._process.pages(shown.next_seq - 1):
                for piece in pieces(page):
                    await self._show(piece)
            self._finish(self._outcome(page))
        except BrokenPipeError:
            self._detach(exit_status.BROKEN_PIPE)
        except PaddockError as error:
            self._finish(Outcome(exit_status.OWN_FAILURE, str(error)))
        except OSError as error:
            problem = f"can't write the output: {error.strerror}"
            self._finish(Outcome(exit_status.OWN_FAILURE, problem))

    async def _replay(self) -> ReadResult:
        """Show the newest retained output, and return the page to continue from."""
        tail = ByteTail(REPLAY_BYTES)
        async for page in self._process.pages(0, until_seq=self._status.next_seq):
            for piece in pieces(page):
                tail.add(piece)
        for piece in tail:
            # This visit did not miss output that the server dropped before it began.
            if not isinstance(piece, OutputGap):
                await self._show(piece)
        return page

    async def _show(self, piece: Piece) -> None:
        if isinstance(piece, OutputGap):
            end = "\r\n" if self._is_interactive else "\n"
            notice = f"{end}{bracketed(f'{piece.bytes_} bytes of output were dropped here')}{end}"
            await self._write(STDERR, notice.encode())
        else:
            await self._write(STDERR if piece.stream is Stream.STDERR else STDOUT, piece.chunk)

    async def _write(self, fd: int, data: bytes) -> None:
        self._modes.feed(data)
        await self._writer.write(fd, data)

    def _outcome(self, page: ReadResult) -> Outcome:
        if page.exit_code is not None:
            return Outcome(exit_status.of_command(page.exit_code))
        return Outcome(exit_status.OWN_FAILURE, f"it is not known what became of it: {page.failure}")

    # --- input --------------------------------------------------------------

    async def _take_input(self) -> None:
        """Read what is typed, always, so that the detach keys work while the process does not read."""
        try:
            while data := await read_input():
                if self._is_interactive:
                    if await self._typed(data):
                        return
                else:
                    await self._input.put(data)
        except OSError as error:
            self._finish(Outcome(exit_status.OWN_FAILURE, f"can't read the input: {error.strerror}"))
            return
        if self._is_interactive:
            # The terminal has hung up.
            self._detach(exit_status.of_signal(signal.SIGHUP))
        elif not self._status.tty and (has_piped_input() or os.isatty(STDIN)):
            self._input.end()

    async def _typed(self, data: bytes) -> bool:
        """Pass keys on; return True if they were the detach keys."""
        typed = self._watch.feed(data)
        if not self._is_read_only and not self._input.offer(typed.data):
            # As a terminal does whose own queue is full (IMAXBEL, termios(3)).
            await self._write(STDOUT, BELL)
        is_leaving = typed.is_detaching or (self._is_read_only and INTERRUPT_KEY in data)
        if is_leaving:
            self._detach()
        return is_leaving

    async def _send_input(self) -> None:
        try:
            while data := await self._input.get(WRITE_BYTES):
                await self._process.write(data)
            await self._process.close_stdin()
        except InvalidRequest as error:
            # The process takes no input, or has ended; its output continues until that ends too.
            if not self._is_interactive:
                tell(str(error), "attach")
        except PaddockError:
            # The connection is lost, and the task that reads the output reports it.
            pass

    # --- window and signals -------------------------------------------------

    async def _pass_window(self) -> None:
        with suppress(PaddockError):
            while True:
                self._window_changed.clear()
                await self._process.resize(window_size())
                await self._window_changed.wait()

    async def _restore_and_flush(self) -> None:
        """Restore the old window size, and send the process what was typed before the user left."""
        rows, cols = self._status.rows, self._status.cols
        with suppress(PaddockError, TimeoutError):
            async with asyncio.timeout(DETACH_TIMEOUT_S):
                if self._has_window and rows is not None and cols is not None:
                    await self._process.resize(TerminalSize(rows=rows, cols=cols))
                while data := self._input.take(WRITE_BYTES):
                    await self._process.write(data)

    @contextmanager
    def _caught_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        caught = not_ignored(LEAVING)
        for number in caught:
            # Where the terminal is not raw, this is what the default detach key comes as.
            status = 0 if number is signal.SIGQUIT else exit_status.of_signal(number)
            loop.add_signal_handler(number, self._detach, status)
        loop.add_signal_handler(signal.SIGWINCH, self._window_changed.set)
        try:
            yield
        finally:
            for number in (*caught, signal.SIGWINCH):
                loop.remove_signal_handler(number)

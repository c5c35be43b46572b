"""A process on the server, as its client holds it.

Reading: one task iterates, or `communicate` does. Output that nobody reads is kept within the bounds that
`flow_control` explains, so `wait` alone works for a process that writes without end. A process whose fate
nobody can know any more has a state of its own, `lost`, and raises an error: it never gets an exit status.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from enum import StrEnum
from itertools import count
from re import Pattern
from signal import Signals
from types import TracebackType
from typing import Final, Literal, TypeVar, overload

from paddock.client.capability import require
from paddock.client.connection import Connection
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.inbox import Inbox, Output
from paddock.client.output_reader import Gathered, OutputIterator, OutputReader, OutputSink, homeward
from paddock.client.request import Answer
from paddock.client.resume import Session
from paddock.errors import (
    InvalidRequest,
    OperationFailed,
    PaddockError,
    StdinClosed,
    UnknownProcess,
    WaitTimeout,
)
from paddock.model.signal_name import INTERRUPT, parse_signal
from paddock.protocol.process import (
    Grace,
    GracefulMode,
    ProcessParams,
    ReadParams,
    ReadResult,
    ResizeParams,
    SignalParams,
    SnapshotResult,
    TerminateParams,
    TerminateResult,
    WriteParams,
    WriteResult,
)
from paddock.protocol.structure import Empty, Params, Result

PIECE_BYTES: Final = 64 * 1024
"""The client sends a write in pieces of one pipe's capacity (pipe(7)), so that no message is large."""

UNANSWERED_PIECES: Final = 8
"""Pieces on their way at once: 512 KiB, which fills a link of 40 Gbit/s at a round trip of 0.1 ms."""

KILL_TIMEOUT_S: Final = 5.0
"""How long the server may take to report that a killed process has ended."""

Bytes = bytes | bytearray | memoryview

R = TypeVar("R", bound=Result)


class ProcessState(StrEnum):
    """The state of a process, as far as it is known."""

    RUNNING = "running"
    EXITED = "exited"
    """It has ended, and more output may arrive."""

    CLOSED = "closed"
    """It has ended, and all its output has arrived."""

    LOST = "lost"
    """Its fate will never be known: the session, or the connection for good, is lost."""


class Process:
    """A started process. Made by `Box.start` and `Box.attach`.

    As an async iterator it yields `Output` in the order in which it was written, until both streams are at
    their end; each piece goes to one iterator only. Iteration raises OutputGap where the client missed output
    that the server did not keep, and may continue after it. If the end is unknown, it raises ProcessLost
    after all the output that arrived. As a context manager it kills the process at the end of the block if it
    still runs. Dropping a handle does not end its process.

    Methods that talk to the server raise ProcessLost for a lost process, and UnknownProcess for one that the
    server has forgotten, as it does a while after the process closed.
    """

    def __init__(self, connection: Connection, inbox: Inbox, session: Session, *, stdin: bool) -> None:
        self._connection = connection
        self._inbox = inbox
        self._session = session
        self._reader = OutputReader(inbox)
        self._let_go = homeward(inbox.discard)
        self._has_stdin = stdin
        self._stdin_lane = asyncio.Lock()
        self._write_prefix = os.urandom(8).hex()
        self._write_number = count()

    def __del__(self) -> None:
        # Nobody can read this output any more. If __init__ did not get this far, there is nothing to release.
        if let_go := getattr(self, "_let_go", None):
            let_go()

    def __repr__(self) -> str:
        status = f" with status {self.exit_code}" if self.exit_code is not None else ""
        return f"<Process {self.process_id!r} {self.state}{status}>"

    @property
    def process_id(self) -> str:
        """Return the name of the process in its session."""
        return self._inbox.process_id

    def is_handle_of(self, inbox: Inbox) -> bool:
        """Return whether this is the handle of the process that the inbox belongs to."""
        return self._inbox is inbox

    @property
    def exit_code(self) -> int | None:
        """Return the exit status, 128+n for signal n; None while the process runs or its fate is unknown."""
        return self._inbox.exit_code

    @property
    def ending(self) -> Ending | None:
        """Return how the process ended: what its sandbox denied, what ended it, what it used. None while it
        runs."""
        return self._inbox.ending

    @property
    def is_closed(self) -> bool:
        """Return whether the process has exited and all its output has arrived, read or not."""
        return self._inbox.is_closed

    @property
    def state(self) -> ProcessState:
        """Return the state of the process, as far as the client knows it.

        A process whose exit arrived before the connection was lost counts as exited.
        """
        if self._inbox.is_closed:
            return ProcessState.CLOSED
        if self._inbox.exit_code is not None:
            return ProcessState.EXITED
        return ProcessState.RUNNING if self._inbox.failure is None else ProcessState.LOST

    @property
    def read_seq(self) -> int:
        """Return the number of the last event read here.

        Pass it to `Box.attach` as `after_seq` to continue after that event elsewhere.
        """
        return self._inbox.read_seq

    # --- output -------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Output]:
        return self.output()

    @overload
    def output(self, *, on_gap: Literal["raise"] = "raise") -> AsyncIterator[Output]: ...

    @overload
    def output(self, *, on_gap: Literal["yield"]) -> AsyncIterator[Output | Gap]: ...

    def output(self, *, on_gap: Literal["raise", "yield"] = "raise") -> AsyncIterator[Output | Gap]:
        """Iterate as over the process itself.

        With `on_gap="yield"`, yield a Gap instead of raising OutputGap.
        """
        self._reader.put_back_lines()
        if on_gap == "raise":
            return OutputIterator(self, self._inbox, self._reader.next_output)
        return OutputIterator(self, self._inbox, self._reader.next_output_or_gap)

    def text(self) -> AsyncIterator[str]:
        """Iterate over the output as text, in whole characters, as it arrives; otherwise like the process
        itself.

        Bytes that are not UTF-8 become U+FFFD. Stdout and stderr come as one text.
        """
        self._reader.put_back_lines()
        return OutputIterator(self, self._inbox, self._reader.next_text)

    def lines(self) -> AsyncIterator[str]:
        """Iterate over the lines of the output, without their line ends; otherwise like `text`.

        Each line of stdout or stderr comes whole, as soon as it is complete. Leaving the loop loses nothing:
        the next reader continues after the last line. A line of more than 1 MiB comes in parts.
        """
        return OutputIterator(self, self._inbox, self._reader.next_line)

    async def read_until(self, pattern: str | Pattern[str], *, timeout_s: float | None = None) -> str:
        """Read up to the end of the first match of a regular expression; return that text.

        The next reader continues after it. Raises PatternNotFound when the output ends, or 1 MiB has arrived,
        without a match, and WaitTimeout after `timeout_s`. After an error or a cancellation, nothing counts
        as read.
        """
        self._reader.put_back_lines()
        self._inbox.add_reader()
        timer = asyncio.timeout(timeout_s)
        try:
            async with timer:
                return await self._reader.read_until(pattern)
        except TimeoutError:
            if timeout_s is None or not timer.expired():
                raise
            raise WaitTimeout(self.process_id, timeout_s, f"write what matches {pattern!r}") from None
        finally:
            self._inbox.remove_reader()

    async def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the exit and return its status; output may still come.

        Raises WaitTimeout after `timeout_s`, and leaves the process running; raises ProcessLost when the
        status will never be known. You need not read the output: when there is too much, the client drops it,
        and a later reader gets OutputOverrun. While another task reads, the client drops nothing and the
        process runs at that reader's speed.
        """
        timer = asyncio.timeout(timeout_s)
        try:
            async with timer:
                return (await self._inbox.exited()).exit_code
        except TimeoutError:
            if timeout_s is None or not timer.expired():
                raise
            raise WaitTimeout(self.process_id, timeout_s, "exit") from None

    async def communicate(self, input: Bytes | None = None) -> tuple[bytes, bytes]:
        """Write `input`, close stdin, and read until the end. Return what is left of stdout and stderr.

        A terminal's output is all stdout. It is not an error if the process exits or closes its stdin before
        it has read everything. It is an error if there is `input` and the server can't close stdin; without
        `input`, such a server leaves stdin open. Only the size of the output bounds memory. Cancelling this
        loses the output read so far and leaves the process alone.
        """
        gathered = Gathered()
        await self.gather(gathered, input)
        return gathered.stdout, gathered.stderr

    async def gather(
        self, sink: OutputSink, input: Bytes | None = None, *, is_exit_enough: bool = False
    ) -> bool:
        """Do what `communicate` does, but pass each piece on at once, so that a failure loses nothing before
        it.

        With `is_exit_enough`, end soon after the exit even if a child holds the streams open. Return whether
        the streams have ended.
        """
        if input is not None and not self._has_stdin:
            raise StdinClosed(self.process_id)
        if input is not None:
            require(self._session.environment, "processCloseStdin", "close stdin")
        self._reader.put_back_lines()
        self._inbox.add_reader()
        try:
            async with asyncio.TaskGroup() as tasks:
                feeding = tasks.create_task(self._feed(input)) if self._needs_feeding else None
                is_complete = True
                if is_exit_enough:
                    is_complete = await self._reader.gather_until_exit(sink, self._ask_for_news)
                else:
                    await self._reader.gather(sink)
                # A process that is closed reads nothing more.
                if feeding is not None:
                    feeding.cancel()
                return is_complete
        except BaseExceptionGroup as group:
            # The reader and the writer fail for the same reason; callers expect a plain exception.
            raise group.exceptions[0] from None
        finally:
            self._inbox.remove_reader()

    @property
    def _needs_feeding(self) -> bool:
        return self._has_stdin and self._session.environment.capabilities.get("processCloseStdin", False)

    async def _ask_for_news(self) -> None:
        params = ReadParams(process_id=self.process_id, after_seq=self._inbox.last_seq, max_bytes=0)
        await self._request("process/read", params, ReadResult)

    async def _feed(self, data: Bytes | None) -> None:
        try:
            if data:
                await self.write(data)
            await self.close_stdin()
        except (StdinClosed, UnknownProcess):
            pass
        except OperationFailed:
            # The reference server's answer when the process has gone.
            if self.exit_code is None:
                raise

    # --- input --------------------------------------------------------------

    async def write(self, data: Bytes | str) -> None:
        """Write to stdin or the terminal, text as UTF-8; return when the server has taken all of it.

        This waits for as long as the process does not read. Writes from several tasks do not mix. Raises
        StdinClosed. After a failure or a cancellation, part of the data may have been written. A lost
        connection is no failure if the client restores it: every byte is written once.
        """
        # A server of the reference protocol may carry out requests side by side, writes too.
        is_ordered = self._session.environment.capabilities.get("orderedWrites", False)
        window = UNANSWERED_PIECES if is_ordered else 1
        async with self._stdin_lane:
            answers: deque[Answer] = deque()
            try:
                for piece in _pieces(data.encode() if isinstance(data, str) else data):
                    if len(answers) == window:
                        await self._accepted(answers.popleft())
                    answers.append(self._send(piece))
                while answers:
                    await self._accepted(answers.popleft())
            finally:
                for answer in answers:
                    self._connection.forget(answer)

    def _send(self, piece: bytes) -> Answer:
        write_id = f"{self._write_prefix}-{next(self._write_number)}"
        return self._submit(
            "process/write", WriteParams(process_id=self.process_id, chunk=piece, write_id=write_id)
        )

    async def _accepted(self, answer: Answer) -> None:
        result = await self._connection.slow_result(answer, WriteResult, self._inbox.waiting())
        match result.status:
            case "accepted":
                return
            case "stdinClosed":
                raise StdinClosed(self.process_id)
            case "unknownProcess":
                raise UnknownProcess(self.process_id)
            case "starting":
                raise InvalidRequest(f"process {self.process_id!r} is still starting; write to it again")

    async def close_stdin(self) -> None:
        """Let the process read the end of its input, after everything written before. Repeatable.

        A terminal has no end: the server sends its end-of-file character, twice in the middle of a line, and
        once more if the program begins to edit lines by itself, as shells do. A program that reads at that
        moment sees the end (a line editor only on an empty line); a later reader does not. Raises StdinClosed
        if the process was started without a stdin, and CapabilityMissing if the server can't close it.
        """
        require(self._session.environment, "processCloseStdin", "close stdin")
        async with self._stdin_lane:
            answer = self._submit("process/closeStdin", ProcessParams(process_id=self.process_id))
            await self._connection.slow_result(answer, Empty, self._inbox.waiting())

    async def resize(self, rows: int, cols: int) -> None:
        """Set the window size of the terminal, which sends SIGWINCH to the foreground job.

        Does nothing after the process has ended. Raises NotATerminal for a process that runs on pipes, and
        CapabilityMissing if the server can't resize.
        """
        require(self._session.environment, "processResize", "resize a terminal")
        params = ResizeParams(process_id=self.process_id, rows=rows, cols=cols)
        await self._request("process/resize", params, Empty)

    # --- the end ------------------------------------------------------------

    async def signal(self, signal: str | Signals) -> None:
        """Send a signal to the process group: `"TERM"`, `"SIGTERM"` or `signal.SIGTERM`.

        Does nothing if the process has ended. Raises ConnectionLost if the connection is lost before the
        answer arrives: the signal may or may not have been sent, and the client does not send it again.
        Servers of the reference protocol know only SIGINT; any other signal raises CapabilityMissing there.
        """
        number = parse_signal(signal) if isinstance(signal, str) else Signals(signal)
        if number is Signals.SIGINT:
            name = INTERRUPT
        else:
            name = number.name
            require(self._session.environment, "processSignals", f"send {name}")
        await self._request("process/signal", SignalParams(process_id=self.process_id, signal=name), Empty)

    async def terminate(self, grace_s: float | None = None) -> bool:
        """Kill the process group; with a grace, SIGTERM first and SIGKILL when the time is over.

        Returns at once whether the process was still running; call `wait` to wait for its end. If the
        connection is lost during the call, the result may be False instead of True.
        """
        mode = None
        if grace_s is not None:
            require(self._session.environment, "processTerminateGraceful", "terminate a process gracefully")
            mode = GracefulMode(graceful=Grace(timeout_ms=round(grace_s * 1000)))
        params = TerminateParams(process_id=self.process_id, mode=mode)
        return (await self._request("process/terminate", params, TerminateResult)).running

    def kill_now(self) -> None:
        """Ask for the kill without waiting for an answer: for clean-up, where waiting may be cut short."""
        if self._inbox.failure is None:
            send_kill(self._connection, self.process_id)

    async def snapshot(self) -> SnapshotResult:
        """Return the head and tail of everything the process wrote, whether it was read here or not."""
        require(self._session.environment, "processSnapshot", "give a snapshot of the output")
        return await self._request(
            "process/snapshot", ProcessParams(process_id=self.process_id), SnapshotResult
        )

    async def __aenter__(self) -> Process:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.exit_code is not None or self._inbox.failure is not None:
            return
        self.kill_now()
        try:
            await self.wait(KILL_TIMEOUT_S)
        except (PaddockError, TimeoutError):
            # The outcome of the block matters more.
            if error is None:
                raise

    # --- inside -------------------------------------------------------------

    async def _request(self, method: str, params: Params, kind: type[R]) -> R:
        return await self._connection.result(self._submit(method, params), kind)

    def _submit(self, method: str, params: Params) -> Answer:
        # A later session might have a different process of this name.
        self._inbox.raise_failure()
        return self._connection.submit(method, params)


def send_kill(connection: Connection, process_id: str) -> None:
    """Ask for the kill of a process, started or about to be, and do not wait for the answer."""
    if connection.is_open:
        connection.submit("process/terminate", TerminateParams(process_id=process_id))


def _pieces(data: Bytes) -> Iterator[bytes]:
    view = memoryview(data).cast("B")
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

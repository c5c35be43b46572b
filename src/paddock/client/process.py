"""A process on the server, as its client holds it.

Reading: one task iterates, or `communicate` does. Output that nobody reads is
kept within the bounds that `intake` explains, so `wait` alone works for a process
that writes without end. Losing the connection is an error everywhere, never an
exit status.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import count
from signal import Signals
from types import TracebackType
from typing import Final, Protocol

from paddock.client.command import require
from paddock.client.connection import Answer, Connection
from paddock.client.inbox import Inbox, Output
from paddock.errors import InvalidRequest, OperationFailed, PaddockError, StdinClosed, UnknownProcess
from paddock.model.signal_name import INTERRUPT, parse_signal
from paddock.model.stream import Stream
from paddock.protocol.process import (
    Grace,
    GracefulMode,
    ProcessParams,
    ResizeParams,
    SignalParams,
    SnapshotResult,
    TerminateParams,
    TerminateResult,
    WriteParams,
    WriteResult,
)
from paddock.protocol.session import EnvironmentInfo
from paddock.protocol.structure import Empty

PIECE_BYTES: Final = 64 * 1024
"""A write is sent in pieces of one pipe's capacity (pipe(7)), so that no message is big."""

UNANSWERED_PIECES: Final = 8
"""Pieces on their way at once: 512 KiB, which fills a link of 40 Gbit/s at a round trip of 0.1 ms."""

KILL_TIMEOUT_S: Final = 5.0
"""How long a killed process may take to be reported as gone."""

Bytes = bytes | bytearray | memoryview


class Process:
    """A started process. Made by `Box.start`.

    As an async iterator it yields `Output` in the order in which it was written, until
    both streams are at their end; each piece goes to one iterator only. Iteration
    raises ConnectionLost if the end is not known, after everything that arrived. As a
    context manager it kills the process at the end of the block if it still runs. A
    handle that is let go of does not end its process.
    """

    def __init__(
        self, connection: Connection, inbox: Inbox, environment: EnvironmentInfo, *, stdin: bool
    ) -> None:
        self._connection = connection
        self._inbox = inbox
        self._environment = environment
        self._has_stdin = stdin
        self._stdin_lane = asyncio.Lock()
        self._write_prefix = secrets.token_hex(8)
        self._write_number = count()

    def __del__(self) -> None:
        # Nobody can read this output any more. There is no inbox if __init__ was not reached.
        if inbox := getattr(self, "_inbox", None):
            inbox.discard()

    def __repr__(self) -> str:
        state = (
            "closed"
            if self.is_closed
            else "running"
            if self.exit_code is None
            else f"exited {self.exit_code}"
        )
        return f"<Process {self.process_id!r} {state}>"

    @property
    def process_id(self) -> str:
        """The name of the process in its session."""
        return self._inbox.process_id

    def is_handle_of(self, inbox: Inbox) -> bool:
        """Whether this is the handle of the process that the inbox belongs to."""
        return self._inbox is inbox

    @property
    def exit_code(self) -> int | None:
        """The exit status, 128+n for signal n; None while the process runs or its fate is unknown."""
        return self._inbox.exit_code

    @property
    def is_closed(self) -> bool:
        """Whether the process has exited and all its output has arrived, read or not."""
        return self._inbox.is_closed

    # --- output -------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Output]:
        return OutputIterator(self)

    async def wait(self, timeout_s: float | None = None) -> int:
        """The exit status, as soon as the process has exited; output may still come.

        Raises TimeoutError when it takes longer than `timeout_s`, and ConnectionLost;
        the process goes on in both cases. Works without reading the output: too much of
        it is dropped then, and whoever reads later gets OutputOverrun. While another
        task reads, nothing is dropped and the process runs at that reader's speed.
        """
        async with asyncio.timeout(timeout_s):
            return await self._inbox.exited()

    async def communicate(self, input: Bytes | None = None) -> tuple[bytes, bytes]:
        """Write `input`, close stdin, and read until the end: what is left of stdout and stderr.

        A terminal's output is all stdout. A process that exits or closes its stdin before
        it has read everything is not an error. A server that can't close stdin is one, if
        there is `input`; without, stdin is left open there. Memory is only bounded by the
        output. Cancelling it loses the output read so far and leaves the process alone.
        """
        gathered = Gathered()
        await self.gather(gathered, input)
        return gathered.stdout, gathered.stderr

    async def gather(self, sink: OutputSink, input: Bytes | None = None) -> None:
        """Like `communicate`, but hand each piece over at once: what came before a failure is not lost."""
        if input is not None and not self._has_stdin:
            raise StdinClosed(self.process_id)
        if input is not None:
            require(self._environment, "processCloseStdin", "close stdin")
        can_close = self._environment.capabilities.get("processCloseStdin", False)
        try:
            async with asyncio.TaskGroup() as tasks:
                feeding = tasks.create_task(self._feed(input)) if self._has_stdin and can_close else None
                async for output in self:
                    sink.add(output)
                # A process that is closed reads nothing more.
                if feeding is not None:
                    feeding.cancel()
        except BaseExceptionGroup as group:
            # The reader and the writer fail for the same reason; callers expect a plain exception.
            raise group.exceptions[0] from None

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

    async def write(self, data: Bytes) -> None:
        """Write to stdin or the terminal; returns when the server has taken all of it.

        That may take as long as the process does not read. Writes of several tasks do not
        mix. Raises StdinClosed and UnknownProcess; when it fails or is cancelled, a part
        may have been written.
        """
        async with self._stdin_lane:
            answers: deque[Answer] = deque()
            try:
                for piece in _pieces(data):
                    if len(answers) == UNANSWERED_PIECES:
                        await self._accepted(answers.popleft())
                    answers.append(self._send(piece))
                while answers:
                    await self._accepted(answers.popleft())
            finally:
                for answer in answers:
                    self._connection.forget(answer)

    def _send(self, piece: bytes) -> Answer:
        write_id = f"{self._write_prefix}-{next(self._write_number)}"
        params = WriteParams(process_id=self.process_id, chunk=piece, write_id=write_id)
        return self._connection.submit("process/write", params)

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

        A terminal gets its end-of-file character. Raises StdinClosed if the process was
        started without a stdin, CapabilityMissing if the server can't.
        """
        require(self._environment, "processCloseStdin", "close stdin")
        async with self._stdin_lane:
            answer = self._connection.submit("process/closeStdin", ProcessParams(process_id=self.process_id))
            await self._connection.slow_result(answer, Empty, self._inbox.waiting())

    async def resize(self, rows: int, cols: int) -> None:
        """Set the window size of the terminal, which sends SIGWINCH to the foreground job."""
        require(self._environment, "processResize", "resize a terminal")
        params = ResizeParams(process_id=self.process_id, rows=rows, cols=cols)
        await self._connection.request("process/resize", params, Empty)

    # --- the end ------------------------------------------------------------

    async def signal(self, signal: str | Signals) -> None:
        """Send a signal to the process group: `"TERM"`, `"SIGTERM"` or `signal.SIGTERM`.

        Nothing happens if the process has ended. Servers of the reference protocol know
        only SIGINT; any other is CapabilityMissing there.
        """
        number = parse_signal(signal) if isinstance(signal, str) else Signals(signal)
        if number is Signals.SIGINT:
            name = INTERRUPT
        else:
            name = number.name
            require(self._environment, "processSignals", f"send {name}")
        params = SignalParams(process_id=self.process_id, signal=name)
        await self._connection.request("process/signal", params, Empty)

    async def terminate(self, grace_s: float | None = None) -> bool:
        """Kill the process group; with a grace, SIGTERM first and SIGKILL when the time is over.

        Returns at once whether the process was still running; `wait` tells when it is gone.
        """
        mode = None
        if grace_s is not None:
            require(self._environment, "processTerminateGraceful", "terminate a process gracefully")
            mode = GracefulMode(graceful=Grace(timeout_ms=round(grace_s * 1000)))
        params = TerminateParams(process_id=self.process_id, mode=mode)
        return (await self._connection.request("process/terminate", params, TerminateResult)).running

    def kill_now(self) -> None:
        """Ask for the kill without waiting for an answer: for clean-up, where waiting may be cut short."""
        send_kill(self._connection, self.process_id)

    async def snapshot(self) -> SnapshotResult:
        """Head and tail of everything the process wrote, whether it was read here or not."""
        require(self._environment, "processSnapshot", "give a snapshot of the output")
        params = ProcessParams(process_id=self.process_id)
        return await self._connection.request("process/snapshot", params, SnapshotResult)

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
            # What matters more is how the block ended.
            if error is None:
                raise


class OutputIterator:
    """One reader of a process; it counts as one until it is let go of."""

    def __init__(self, process: Process) -> None:
        # The process is held so that its output is not discarded under the reader.
        self._process = process
        self._inbox = process._inbox
        self._inbox.add_reader()

    def __del__(self) -> None:
        if inbox := getattr(self, "_inbox", None):
            inbox.remove_reader()

    def __aiter__(self) -> AsyncIterator[Output]:
        return self

    async def __anext__(self) -> Output:
        output = await self._inbox.next_output()
        if output is None:
            raise StopAsyncIteration
        return output


class OutputSink(Protocol):
    """Takes output as it comes."""

    def add(self, output: Output) -> None:
        """Take one piece."""


class Gathered:
    """Output of a process, as far as it has come."""

    def __init__(self) -> None:
        self._stdout = bytearray()
        self._stderr = bytearray()

    def add(self, output: Output) -> None:
        """Append one piece; a terminal's output counts as stdout."""
        (self._stderr if output.stream is Stream.STDERR else self._stdout).extend(output.data)

    @property
    def stdout(self) -> bytes:
        """What went to stdout or the terminal."""
        return bytes(self._stdout)

    @property
    def stderr(self) -> bytes:
        """What went to stderr."""
        return bytes(self._stderr)


def send_kill(connection: Connection, process_id: str) -> None:
    """Ask for the kill of a process, started or about to be, and do not wait for the answer."""
    if connection.is_open:
        params = TerminateParams(process_id=process_id)
        connection.forget(connection.submit("process/terminate", params))


def _pieces(data: Bytes) -> Iterator[bytes]:
    view = memoryview(data).cast("B")
    for start in range(0, len(view), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

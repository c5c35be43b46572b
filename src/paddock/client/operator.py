"""A server as its operator sees it: all sessions and their processes.

A `ServerControl` holds one connection. It owns nothing on the server: when it closes, every process that it
looked at or wrote to keeps running. `transport.runtime_directory` finds the sockets.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Final

from paddock.client.connection import Connection
from paddock.client.dial import DialOptions, dialer
from paddock.client.resume import Dial
from paddock.errors import ConnectError, ConnectionLost, MethodNotFound, StdinClosed, UnknownProcess
from paddock.model.control_address import ControlAddress
from paddock.model.terminal import TerminalSize
from paddock.protocol.control import AnswerParams, QuestionsResult, StatusResult
from paddock.protocol.process import (
    Grace,
    GracefulMode,
    OutputChunk,
    OutputGap,
    ProcessParams,
    ReadParams,
    ReadResult,
    ResizeParams,
    SignalParams,
    TerminateParams,
    TerminateResult,
    WaitParams,
    WaitResult,
    WriteParams,
    WriteResult,
)
from paddock.protocol.session import ClientCapabilities, InitializeParams
from paddock.protocol.structure import Empty
from paddock.transport import unix
from paddock.transport.limits import CLIENT_LIMITS

ANSWER_TIMEOUT_S: Final = 5.0
"""Far beyond what a healthy server takes on the same host; a stopped one must not hold up the others."""

CLOSE_TIMEOUT_S: Final = 1.0
"""How long a server that does not take part in the end of a connection holds up its operator."""

PAGE_BYTES: Final = 1 << 20
"""Output asked for at once: 1.4 MiB on the wire, a few milliseconds."""

POLL_MS: Final = 60_000
"""How long one request waits for news; a new one follows."""

NOT_OPERATED: Final = (
    "it is not a control socket, and takes no operators over the network: that needs ws_auth and "
    "network_operators = true in its settings"
)

CAPABILITIES: Final = ClientCapabilities(extensions=True)


class ServerControl:
    """An open control connection. Made by `operate`; `aclose` must follow."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self._connection = connection

    async def status(self) -> StatusResult:
        """Return the server, its sessions and their processes.

        Raises ConnectError where operators are not allowed.
        """
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._connection.request("control/status", None, StatusResult)
        except MethodNotFound as error:
            raise ConnectError(self.url, NOT_OPERATED) from error
        except TimeoutError as error:
            raise _silence(self.url) from error

    async def questions(self) -> QuestionsResult:
        """Return the unanswered questions of all sessions."""
        return await self._connection.request("control/questions", None, QuestionsResult)

    async def answer(self, question_id: str, result: object) -> None:
        """Answer a question in place of its client.

        Raises UnknownQuestion when somebody else answered first, and InvalidParams for an invalid result.
        """
        params = AnswerParams(question_id=question_id, result=result)
        await self._connection.request("control/answer", params, Empty)

    def process(self, session_id: str, process_id: str) -> OperatedProcess:
        """Return a handle of a process. This does not check that the process exists; the first use of the
        handle does."""
        return OperatedProcess(self._connection, session_id, process_id)

    async def aclose(self) -> None:
        """End the connection, within `CLOSE_TIMEOUT_S`."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._connection.aclose()
        except TimeoutError:
            self._connection.abort()
            await self._connection.aclose()

    async def __aenter__(self) -> ServerControl:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def operate(where: ControlAddress, client_name: str) -> ServerControl:
    """Connect to a server to operate it. Raises ConnectError, whose cause shows whether a server listens."""
    connection = Connection()
    params = InitializeParams(client_name=client_name, capabilities=CAPABILITIES)
    url, dial = _dialer(where)
    try:
        await dial(connection.attach)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await connection.greet(params)
        connection.open()
    except TimeoutError as error:
        connection.abort()
        raise _silence(url) from error
    except ConnectionLost as error:
        raise ConnectError(url, str(error)) from error
    except BaseException:
        connection.abort()
        raise
    return ServerControl(url, connection)


def _dialer(where: ControlAddress) -> tuple[str, Dial]:
    """Return the URL and a function that connects to it. Raises ConnectError."""
    if isinstance(where, Path):
        path = where
        return f"unix://{path}", lambda accept: unix.connect(
            path, accept, CLIENT_LIMITS, timeout_s=ANSWER_TIMEOUT_S
        )
    options = DialOptions(timeout_s=ANSWER_TIMEOUT_S, token=where.token, tls_ca=where.tls_ca)
    try:
        return where.url, dialer(where.url, options)
    except ValueError as error:
        raise ConnectError(where.url, str(error)) from error


def _silence(url: str) -> ConnectError:
    return ConnectError(url, f"no answer within {ANSWER_TIMEOUT_S:g} s")


class OperatedProcess:
    """A process of any session. Every method raises ConnectionLost, UnknownSession and UnknownProcess."""

    def __init__(self, connection: Connection, session_id: str, process_id: str) -> None:
        self.session_id = session_id
        self.process_id = process_id
        self._connection = connection
        self._write_prefix = os.urandom(8).hex()
        self._write_number = count()

    async def read(self, after_seq: int, *, wait_ms: int = 0) -> ReadResult:
        """Return a page of retained output after an event. Wait for output if there is none."""
        params = ReadParams(
            process_id=self.process_id,
            session_id=self.session_id,
            after_seq=after_seq,
            max_bytes=PAGE_BYTES,
            wait_ms=wait_ms,
        )
        return await self._connection.request("process/read", params, ReadResult)

    async def pages(self, after_seq: int, *, until_seq: int | None = None) -> AsyncIterator[ReadResult]:
        """Yield output in order, page by page, from the event after `after_seq` on.

        With `until_seq`, yield the retained events below it, without waiting. Without it, yield everything as
        it arrives, until the process has closed. Go on from the last page's `next_seq`. The last page of a
        process that has closed says so.
        """
        while True:
            page = await self.read(after_seq, wait_ms=POLL_MS if until_seq is None else 0)
            yield page
            after_seq = page.next_seq - 1
            if until_seq is None:
                is_last = page.closed and not page.chunks
            else:
                is_last = page.next_seq >= until_seq
            if is_last:
                return

    async def write(self, data: bytes) -> None:
        """Write to stdin or the terminal; wait while the process does not read. Raises StdinClosed."""
        params = WriteParams(
            process_id=self.process_id,
            session_id=self.session_id,
            chunk=data,
            write_id=f"{self._write_prefix}-{next(self._write_number)}",
        )
        result = await self._connection.request("process/write", params, WriteResult)
        match result.status:
            case "accepted" | "starting":
                return
            case "stdinClosed":
                raise StdinClosed(self.process_id)
            case "unknownProcess":
                raise UnknownProcess(self.process_id)

    async def close_stdin(self) -> None:
        """Let the process read the end of its input."""
        params = ProcessParams(process_id=self.process_id, session_id=self.session_id)
        await self._connection.request("process/closeStdin", params, Empty)

    async def resize(self, size: TerminalSize) -> None:
        """Set the window size of its terminal."""
        params = ResizeParams(
            process_id=self.process_id, session_id=self.session_id, rows=size.rows, cols=size.cols
        )
        await self._connection.request("process/resize", params, Empty)

    async def signal(self, name: str) -> None:
        """Send a signal to the process group; do nothing if it has ended."""
        params = SignalParams(process_id=self.process_id, session_id=self.session_id, signal=name)
        await self._connection.request("process/signal", params, Empty)

    async def has_survivors(self) -> bool:
        """Return whether the process has exited and others of its group live on."""
        status = await self._connection.request("control/status", None, StatusResult)
        return any(
            process.survivors
            for session in status.sessions
            if session.session_id == self.session_id
            for process in session.processes
            if process.process_id == self.process_id
        )

    async def terminate(self, grace_s: float) -> bool:
        """Send SIGTERM now and SIGKILL after the grace, also to survivors.

        Return at once whether it was running.
        """
        params = TerminateParams(
            process_id=self.process_id,
            session_id=self.session_id,
            mode=GracefulMode(graceful=Grace(timeout_ms=round(grace_s * 1000))),
        )
        return (await self._connection.request("process/terminate", params, TerminateResult)).running

    async def wait(self, timeout_s: float) -> WaitResult:
        """Wait for the exit or the timeout, and return the state of the process at that moment."""
        params = WaitParams(
            process_id=self.process_id, session_id=self.session_id, timeout_ms=round(timeout_s * 1000)
        )
        return await self._connection.request("process/wait", params, WaitResult)


def pieces(page: ReadResult) -> Iterator[OutputChunk | OutputGap]:
    """Yield the chunks of a page, and the gaps between them, in order."""
    gaps = list(page.gaps or ())
    for chunk in page.chunks:
        while gaps and gaps[0].from_seq < chunk.seq:
            yield gaps.pop(0)
        yield chunk
    yield from gaps

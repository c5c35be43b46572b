"""Serves one client on standard input and output, a line for each message.

The SDK's own transport moves every line through threads; this one polls, and holds back a client that
sends faster than it is served or does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from paddock.agent.approval import Approver
from paddock.errors import MessageTooLarge
from paddock.mcp_server.service import Service, offered
from paddock.mcp_server.session import Session
from paddock.mcp_server.workplace import Terms, Workplace
from paddock.transport.limits import MIB
from paddock.transport.lines import LineSplitter
from paddock.transport.stdio import start_stdio

LINE_LIMIT_BYTES: Final = 64 * MIB
"""Of one message; a longer one ends the connection."""

HELD_LIMIT: Final = 64
"""Messages that have come and wait: then no more are read. One read may bring more than that."""


async def serve_stdio(workplace: Workplace, terms: Terms, console: Approver | None = None) -> None:
    """Serve until the input ends; nothing of the client is left then. Raises ListenError."""
    session = Session(workplace, terms, console)
    service = Service(offered(terms.tools), lambda _: session)
    wire = _Wire()
    transport = start_stdio(wire)
    try:
        await service.server.run(_Incoming(wire), _Outgoing(wire), service.options())
    finally:
        # What is queued is still sent.
        transport.close()
        await session.aclose()


class _Wire(asyncio.Protocol):
    """The two streams. After the end of the input, answers are still sent."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._splitter = LineSplitter(LINE_LIMIT_BYTES)
        self._held: deque[SessionMessage | Exception] = deque()
        self._has_ended = False
        self._came = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def next(self) -> SessionMessage | Exception:
        """Return the next message, or what is wrong with it. Raises EndOfStream after the last one."""
        while not self._held:
            if self._has_ended:
                raise anyio.EndOfStream
            self._came.clear()
            await self._came.wait()
        message = self._held.popleft()
        if len(self._held) < HELD_LIMIT and not self._has_ended:
            self._transport.resume_reading()
        return message

    async def write(self, line: str) -> None:
        """Send a line, once the client has read enough of those before. Raises BrokenResourceError."""
        await self._may_write.wait()
        if self._transport.is_closing():
            raise anyio.BrokenResourceError
        self._transport.write(line.encode() + b"\n")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            lines = self._splitter.feed(data)
        except MessageTooLarge as error:
            self._held.append(error)
            self._end()
            return
        for line in lines:
            self._held.append(_read(line))
        if len(self._held) >= HELD_LIMIT:
            self._transport.pause_reading()
        self._came.set()

    def eof_received(self) -> bool:
        self._end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._may_write.set()
        self._end()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def _end(self) -> None:
        self._has_ended = True
        self._transport.pause_reading()
        self._came.set()


class _Incoming:
    """What the SDK reads messages from."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def receive(self) -> SessionMessage | Exception:
        return await self._wire.next()

    async def aclose(self) -> None:
        return

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self._wire.next()
        except anyio.EndOfStream as end:
            raise StopAsyncIteration from end

    async def __aenter__(self) -> _Incoming:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return


class _Outgoing:
    """What the SDK writes messages to."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        await self._wire.write(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> _Outgoing:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        return


def _read(line: bytes) -> SessionMessage | Exception:
    try:
        # As the SDK does: bytes that are not UTF-8 make no message unreadable.
        text = line.decode(errors="replace")
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return error

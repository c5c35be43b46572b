"""Serves one client on standard input and output, a line for each message.

The SDK's own transport moves every line through threads; this one polls, and holds back a client that
sends faster than it is served or does not read. A request that can't be read gets an error, if its id can be:
the SDK would drop it, and its client would wait.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from typing import Any, Final, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, jsonrpc_message_adapter
from msgspec import Struct
from pydantic import ValidationError

from paddock.agent.approval import Approver
from paddock.errors import MessageTooLarge
from paddock.excerpt import excerpt
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

REFUSED_LIMIT_BYTES: Final = MIB
"""A longer message that can't be read is not looked at once more for its id."""

_ID_DIGITS: Final = 19
"""Digits of an id that is a number; a longer number takes long to read."""


class _Refusal(Struct, frozen=True):
    line: str
    """The answer to a request that can't be read."""


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
        self._held: deque[SessionMessage | Exception | _Refusal] = deque()
        self._has_ended = False
        self._came = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    async def next(self) -> SessionMessage | Exception:
        """Return the next message, or what is wrong with it. Raises EndOfStream after the last one."""
        while isinstance(message := await self._next_held(), _Refusal):
            # Here and not where it came in: a client that does not read its answers gets no more of them.
            with suppress(anyio.BrokenResourceError):
                await self.write(message.line)
        return message

    async def _next_held(self) -> SessionMessage | Exception | _Refusal:
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


def _read(line: bytes) -> SessionMessage | Exception | _Refusal:
    # As the SDK does: bytes that are not UTF-8 make no message unreadable.
    text = line.decode(errors="replace")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValidationError as error:
        request_id = _request_id(text)
        if request_id is None:
            return error
        problem = f"the request can't be read: {excerpt(error.errors(include_url=False)[0]['msg'])}"
        answer = {"code": INVALID_REQUEST, "message": problem}
        return _Refusal(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": answer}))
    except ValueError as error:
        return error


def _request_id(text: str) -> str | int | None:
    """Return the id of a request that holds what the SDK does not read; None if it has none."""
    if len(text) > REFUSED_LIMIT_BYTES:
        return None
    try:
        read: Any = json.loads(text, parse_int=_number)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not isinstance(read.get("method"), str):
        return None
    request_id = read.get("id")
    is_id = isinstance(request_id, str | int) and not isinstance(request_id, bool)
    return cast("str | int", request_id) if is_id else None


def _number(digits: str) -> int | None:
    return int(digits) if len(digits) <= _ID_DIGITS else None

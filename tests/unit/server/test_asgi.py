"""Strangers before a server of another protocol over HTTP: they hold nothing, and keep nobody out."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from paddock.server import asgi
from paddock.server.asgi import (
    PIECE_BYTES,
    Message,
    Receive,
    Scope,
    Send,
    headers_of,
    refusal_of,
    refuse,
    serve_application,
)
from paddock.server.http_listener import HttpListener
from paddock.transport.http import HEAD_LINES
from paddock.transport.input_turns import InputShare
from tests import tls
from tests.turn_count import counted
from tests.unit.server.test_http_listener import encrypted, settings

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
HALF = REQUEST[:20]
HALF_A_HELLO = bytes.fromhex("16030100c8010000c40303")
LONG_S = 3600.0
"""Whoever waits for this fails the test."""


@asynccontextmanager
async def served(listener: HttpListener, sizes: list[int] | None = None) -> AsyncIterator[int]:
    """Serve an application that says hello, and yield its port. It notes the sizes of bodies."""
    sizes = [] if sizes is None else sizes

    async def hello(scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        sizes.append(len(body))
        refusal = refusal_of(listener.request_filter, scope["method"], headers_of(scope))
        if refusal is not None:
            await refuse(refusal, send)
            return
        start: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"5")],
        }
        await send(start)
        await send({"type": "http.response.body", "body": b"hello"})

    stop = asyncio.Event()
    announced: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve_application(listener, lambda _: hello, announce=announced.set_result, stop=stop)
    )
    try:
        yield int((await announced).rpartition(":")[2])
    finally:
        stop.set()
        await serving


async def dial(port: int, *said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.writelines(said)
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Wait for the end of a connection, by a reset too; return what came before."""
    data = b""
    try:
        while piece := await reader.read(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


async def answer(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"hello")


async def test_oldest_stranger_makes_room_and_whoever_asks_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "STRANGERS", 2)
    monkeypatch.setattr(asgi, "HEAD_TIMEOUT_S", LONG_S)
    async with served(HttpListener(settings("http://127.0.0.1:0"))) as port:
        known_reader, known = await dial(port, REQUEST)
        assert b" 200 " in await answer(known_reader)
        strangers = [await dial(port, HALF) for _ in range(2)]
        reader, writer = await dial(port, REQUEST)
        assert await ended(strangers[0][0]) == b""
        assert b" 200 " in await answer(reader)
        known.write(REQUEST)
        assert b" 200 " in await answer(known_reader)
        for each in (known, writer, *(writer for _, writer in strangers)):
            each.close()


@pytest.mark.parametrize("before", [b"", HALF, REQUEST + HALF])
async def test_who_does_not_complete_a_request_is_dropped(
    monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    monkeypatch.setattr(asgi, "HEAD_TIMEOUT_S", 0.05)
    async with served(HttpListener(settings("http://127.0.0.1:0"))) as port:
        reader, writer = await dial(port)
        if before.startswith(REQUEST):
            writer.write(REQUEST)
            assert b" 200 " in await answer(reader)
            before = before.removeprefix(REQUEST)
        writer.write(before)
        assert await ended(reader) == b""
        writer.close()


async def test_who_does_not_complete_the_tls_handshake_is_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(asgi, "HEAD_TIMEOUT_S", 0.05)
    async with served(HttpListener(encrypted(tmp_path, tls.CERT, tls.KEY))) as port:
        reader, writer = await dial(port, HALF_A_HELLO)
        await ended(reader)
        writer.close()


async def test_request_over_tls_is_answered(tmp_path: Path) -> None:
    async with served(HttpListener(encrypted(tmp_path, tls.CERT, tls.KEY))) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls.client_context())
        assert isinstance(writer.get_extra_info("ssl_object"), ssl.SSLObject)
        for _ in range(2):
            writer.write(REQUEST)
            assert b" 200 " in await answer(reader)
        writer.transport.abort()


async def test_who_is_refused_keeps_no_connection() -> None:
    async with served(HttpListener(settings("http://127.0.0.1:0"))) as port:
        reader, writer = await dial(port, REQUEST.replace(b"127.0.0.1", b"evil.test"))
        assert b" 403 " in await ended(reader)
        writer.close()


def lines_before_end(count: int) -> bytes:
    """Return a request whose head has so many lines."""
    return REQUEST[:-2] + b"a:\r\n" * (count - 2) + b"\r\n"


async def test_head_has_a_bounded_number_of_lines() -> None:
    sizes: list[int] = []
    async with served(HttpListener(settings("http://127.0.0.1:0")), sizes) as port:
        reader, writer = await dial(port, lines_before_end(HEAD_LINES))
        assert b" 200 " in await answer(reader)
        # Also behind another request, and before it has ended.
        writer.write(REQUEST + lines_before_end(HEAD_LINES + 1)[:-2])
        assert b" 200 " in await answer(reader)
        assert b" 400 " in await ended(reader)
        writer.close()
    assert len(sizes) == 2


async def test_lines_of_a_body_do_not_count() -> None:
    sizes: list[int] = []
    body = b"\n" * (3 * HEAD_LINES)
    async with served(HttpListener(settings("http://127.0.0.1:0")), sizes) as port:
        reader, writer = await dial(port, REQUEST[:-2] + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert b" 200 " in await answer(reader)
        writer.close()
    assert sizes == [len(body)]


async def test_requests_of_strangers_have_one_turn_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.transport.input_turns.COMMON_S", 0.0)
    async with served(HttpListener(settings("http://127.0.0.1:0"))) as port:
        strangers = [await dial(port) for _ in range(20)]
        with counted(asgi._Visitor, "_take") as count:
            for _, writer in strangers:
                writer.write(REQUEST)
            for reader, writer in strangers:
                assert b" 200 " in await answer(reader)
                writer.close()
    assert (count.on_loop, count.most) == (len(strangers), 1)


@pytest.mark.parametrize("has_time", [True, False])
async def test_large_body_in_the_smallest_chunks_arrives_whole_in_pieces(
    monkeypatch: pytest.MonkeyPatch, has_time: bool
) -> None:
    if not has_time:
        monkeypatch.setattr(InputShare, "has_room", False)
    sizes: list[int] = []
    chunks = 5000
    body = b"1\r\nx\r\n" * chunks + b"0\r\n\r\n"
    async with served(HttpListener(settings("http://127.0.0.1:0")), sizes) as port:
        with counted(asgi._Visitor, "_take") as count:
            reader, writer = await dial(port, REQUEST[:-2] + b"Transfer-Encoding: chunked\r\n\r\n" + body)
            assert b" 200 " in await answer(reader)
            # The connection is good for another request.
            writer.write(REQUEST)
            assert b" 200 " in await answer(reader)
            writer.close()
    assert sizes == [chunks, 0]
    assert count.on_loop >= len(body) // PIECE_BYTES
    if not has_time:
        assert count.most == 1


async def test_client_that_ends_while_its_request_waits_has_sent_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InputShare, "has_room", False)
    sizes: list[int] = []
    body = b"x" * (5 * PIECE_BYTES)
    async with served(HttpListener(settings("http://127.0.0.1:0")), sizes) as port:
        reader, writer = await dial(port, REQUEST[:-2] + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        writer.write_eof()
        await ended(reader)
        writer.close()
    assert sizes == [len(body)]


async def test_requests_that_come_before_the_answers_are_all_answered() -> None:
    sizes: list[int] = []
    async with served(HttpListener(settings("http://127.0.0.1:0")), sizes) as port:
        reader, writer = await dial(port, *(REQUEST for _ in range(500)))
        for _ in range(500):
            assert b" 200 " in await answer(reader)
        writer.close()
    assert sizes == [0] * 500

"""Websockets over TLS: what differs from plain ones. What a link promises is tested in test_contract."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from websockets.asyncio.client import connect as independent_connect

from paddock.errors import ConnectError, HandshakeRefused
from paddock.transport import websocket
from paddock.transport.http import HttpResponse
from paddock.transport.limits import WebSocketLimits
from paddock.transport.listener import Listener, ListeningSocket
from tests import tls
from tests.unit.transport.raw_peer import TEXT, RawPeer, frame, request
from tests.unit.transport.recorder import PATIENCE_S, Acceptor

# What a client sends first, up to the middle of its hello.
HALF_A_HELLO = bytes.fromhex("16030100c8010000c40303")


@pytest.fixture
async def guests() -> Acceptor:
    """Receive at the server's end."""
    return Acceptor()


@pytest.fixture
async def listener(guests: Acceptor) -> AsyncIterator[Listener]:
    """Listen with TLS."""
    listener = await _listen(guests, handshake_timeout_s=PATIENCE_S)
    yield listener
    await listener.aclose()


async def _listen(guests: Acceptor, handshake_timeout_s: float) -> Listener:
    limits = WebSocketLimits(handshake_timeout_s=handshake_timeout_s)
    return await websocket.listen("127.0.0.1", 0, guests, limits, ssl_context=tls.server_context())


async def test_the_url_says_that_it_is_encrypted(listener: Listener) -> None:
    assert listener.url.startswith("wss://127.0.0.1:")


async def test_an_independent_client_is_understood(listener: Listener, guests: Acceptor) -> None:
    async with independent_connect(listener.url, ssl=tls.client_context()) as client:
        await client.send("hello")
        guest = await guests.arrived()
        assert await guest.received(1) == [b"hello"]
        guest.link.send(b"welcome")
        assert await client.recv() == "welcome"


async def test_an_unknown_authority_is_not_trusted(listener: Listener, guests: Acceptor) -> None:
    with pytest.raises(ConnectError, match="certificate is not trusted: unable to get"):
        await websocket.connect(listener.url, Acceptor())
    assert guests.recorders == []


async def test_a_certificate_for_another_name_is_not_trusted(guests: Acceptor) -> None:
    listener = await websocket.listen("127.0.0.2", 0, guests, ssl_context=tls.server_context())
    with pytest.raises(ConnectError, match="certificate is not trusted"):
        await websocket.connect(listener.url, Acceptor(), ssl_context=tls.client_context())
    assert guests.recorders == []
    await listener.aclose()


async def test_a_peer_that_speaks_without_tls_is_dropped_and_others_are_served(
    listener: Listener, guests: Acceptor, acceptor: Acceptor
) -> None:
    plain = await RawPeer.dial(listener.url)
    plain.send(request())
    assert b"101" not in await plain.rest()
    await plain.aclose()
    link = await websocket.connect(listener.url, acceptor, ssl_context=tls.client_context())
    link.send(b"hello")
    assert await (await guests.arrived()).received(1) == [b"hello"]


@pytest.mark.parametrize("beginning", [b"", HALF_A_HELLO])
async def test_a_peer_that_does_not_finish_the_tls_handshake_is_dropped(beginning: bytes) -> None:
    listener = await _listen(Acceptor(), handshake_timeout_s=0.05)
    peer = await RawPeer.dial(listener.url)
    peer.send(beginning)
    assert await peer.rest() == b""
    await peer.aclose()
    await listener.aclose()


async def test_a_peer_that_does_not_finish_its_request_inside_tls_is_dropped() -> None:
    listener = await _listen(Acceptor(), handshake_timeout_s=2.0)
    host, port = listener.url.removeprefix("wss://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls.client_context())
    writer.write(b"GET / HTTP/1.1\r\nHost: te")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    writer.transport.abort()
    await listener.aclose()


@pytest.fixture
def spacious(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the transport fill its own buffer in one read."""

    def take_much(sock: ListeningSocket, backlog: int = 0) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_000_000)
        listen(sock, backlog)

    # Those who are accepted inherit it.
    listen = ListeningSocket.listen
    monkeypatch.setattr(ListeningSocket, "listen", take_much)


@pytest.mark.usefixtures("spacious")
async def test_much_that_comes_at_once_with_the_request_arrives_whole(guests: Acceptor) -> None:
    listener = await _listen(guests, handshake_timeout_s=PATIENCE_S)
    host, port = listener.url.removeprefix("wss://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=tls.client_context())
    messages = [bytes([index]) * 50_000 for index in range(20)]
    writer.write(request())
    writer.write(b"".join(frame(TEXT, message) for message in messages))
    assert await (await guests.arrived()).received(len(messages)) == messages
    writer.transport.abort()
    await listener.aclose()


@pytest.mark.usefixtures("spacious")
async def test_what_came_before_a_pause_arrives_after_it_although_nothing_follows(guests: Acceptor) -> None:
    listener = await _listen(guests, handshake_timeout_s=PATIENCE_S)
    host, port = listener.url.removeprefix("wss://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=tls.client_context())
    writer.write(request())
    await reader.readuntil(b"\r\n\r\n")
    guest = await guests.arrived()

    def pause_once(_: bytes) -> None:
        guest.on_message = None
        guest.link.pause_reading()
        asyncio.get_running_loop().call_soon(guest.link.resume_reading)

    guest.on_message = pause_once
    messages = [bytes([index]) * 2_000 for index in range(100)]
    writer.write(b"".join(frame(TEXT, message) for message in messages))
    assert await guest.received(len(messages)) == messages
    writer.transport.abort()
    await listener.aclose()


async def test_a_client_that_is_refused_learns_status_and_text() -> None:
    refusal = HttpResponse(status=401, body=b"who are you?")
    listener = await websocket.listen(
        "127.0.0.1", 0, Acceptor(), http=lambda _: refusal, ssl_context=tls.server_context()
    )
    with pytest.raises(HandshakeRefused) as caught:
        await websocket.connect(listener.url, Acceptor(), ssl_context=tls.client_context())
    assert (caught.value.status, caught.value.body) == (401, "who are you?")
    await listener.aclose()


async def test_a_peer_that_hangs_up_in_the_tls_handshake_is_no_fault(
    listener: Listener, acceptor: Acceptor, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await RawPeer.dial(listener.url)
    peer.send(HALF_A_HELLO)
    peer.end_output()
    assert await peer.rest() == b""
    await peer.aclose()
    await websocket.connect(listener.url, acceptor, ssl_context=tls.client_context())
    assert caplog.text == ""


@pytest.mark.parametrize("is_polite", [True, False])
async def test_a_server_that_hangs_up_in_the_tls_handshake_is_told_of(
    is_polite: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if is_polite:
            await reader.read(65536)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(ConnectError, match=r": (the server ended the connection during|connection reset by)"):
        await websocket.connect(url, Acceptor(), ssl_context=tls.client_context())
    assert caplog.text == ""
    server.close()
    await server.wait_closed()


async def test_a_client_that_expects_tls_where_there_is_none_learns_so_at_once() -> None:
    limits = WebSocketLimits(handshake_timeout_s=3600)
    listener = await websocket.listen("127.0.0.1", 0, Acceptor(), limits)
    url = listener.url.replace("ws://", "wss://")
    with pytest.raises(ConnectError, match="it does not speak TLS; did you mean ws://"):
        await websocket.connect(url, Acceptor(), timeout_s=PATIENCE_S, ssl_context=tls.client_context())
    await listener.aclose()


async def test_a_connect_that_is_cancelled_in_the_tls_handshake_leaves_nothing_open() -> None:
    arrived: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
    writers: list[asyncio.StreamWriter] = []

    def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        arrived.put_nowait(reader)

    server = await asyncio.start_server(arrive, "127.0.0.1", 0)
    url = f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    task = asyncio.create_task(websocket.connect(url, Acceptor(), ssl_context=tls.client_context()))
    reader = await arrived.get()
    await reader.readexactly(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(PATIENCE_S):
        await reader.read(-1)
    server.close()
    writers[0].transport.abort()


async def test_ending_a_listener_drops_unfinished_tls_handshakes(listener: Listener) -> None:
    hesitant = await RawPeer.dial(listener.url)
    hesitant.send(HALF_A_HELLO)
    await hesitant.flush()
    # Accepted in order, so the hesitant one is known to the listener when this one is answered.
    async with independent_connect(listener.url, ssl=tls.client_context()):
        pass
    await listener.aclose()
    assert await hesitant.rest() == b""
    await hesitant.aclose()


async def test_a_connection_uses_a_version_of_tls_that_is_safe(listener: Listener) -> None:
    host, port = listener.url.removeprefix("wss://").split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=tls.client_context())
    channel: ssl.SSLObject = writer.get_extra_info("ssl_object")
    assert channel.version() == "TLSv1.3"
    writer.transport.abort()

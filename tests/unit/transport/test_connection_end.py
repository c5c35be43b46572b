"""Connections that are reset or ended at any moment, over TLS and without: each is noticed at once, and what
came before is delivered.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from paddock.errors import ConnectError, ConnectionLost, ProtocolViolation
from paddock.transport import websocket
from paddock.transport.limits import WebSocketLimits
from paddock.transport.listener import Listener
from paddock.transport.pending_handshakes import PendingHandshakes
from tests import tls
from tests.unit.transport.raw_peer import (
    CLOSE,
    RESET_ON_CLOSE,
    TEXT,
    RawPeer,
    TlsSocket,
    frame,
    request,
    upgraded_socket,
)
from tests.unit.transport.recorder import PATIENCE_S, Acceptor, Recorder

# Whoever waits for one of these fails the test: no ping, and no end of a handshake, comes to help.
PATIENT = WebSocketLimits(ping_interval_s=None, handshake_timeout_s=3600, close_timeout_s=3600)


@asynccontextmanager
async def listening(
    guests: Acceptor, context: ssl.SSLContext | None = None, limits: WebSocketLimits = PATIENT
) -> AsyncIterator[Listener]:
    """Listen, with nothing that notices a dead peer in the course of time."""
    listener = await websocket.listen("127.0.0.1", 0, guests, limits, ssl_context=context)
    try:
        yield listener
    finally:
        await listener.aclose()


@pytest.fixture
async def guests() -> AsyncIterator[Acceptor]:
    guests = Acceptor()
    yield guests
    await guests.aclose()


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("portion", ["one byte", "half", "all but one", "one and a half"])
async def test_an_end_behind_a_part_of_a_record_is_noticed(
    guests: Acceptor, is_reset: bool, version: ssl.TLSVersion, portion: str
) -> None:
    context = tls.client_context()
    context.maximum_version = version
    async with listening(guests, tls.server_context()) as listener:
        peer = await TlsSocket.dial(listener.url, context)
        await peer.upgrade()
        server = await guests.arrived()
        record = peer.records(frame(TEXT, b"first"))
        size = {
            "one byte": 1,
            "half": len(record) // 2,
            "all but one": len(record) - 1,
            "one and a half": len(record) // 2,
        }[portion]
        data = record[:size]
        if portion == "one and a half":
            data = record + peer.records(frame(TEXT, b"second"))[:size]
        peer.send_and_end(data, is_reset=is_reset)
        error = await server.ended()
        assert isinstance(error, ConnectionLost)
        assert server.messages == ([b"first"] if portion == "one and a half" else [])
        if is_reset:
            assert isinstance(error.__cause__, ConnectionResetError)


async def test_much_that_came_before_a_reset_is_delivered(guests: Acceptor) -> None:
    messages = [bytes([number]) * 1000 for number in range(20)]
    for context, data in ((tls.server_context(), b""), (None, b"")):
        guests.recorders.clear()
        async with listening(guests, context) as listener:
            if context is None:
                plain = await RawPeer.upgrade(listener.url)
                server = await guests.arrived()
                plain.send(*(frame(TEXT, message) for message in messages))
                await plain.flush()
                plain.reset()
            else:
                peer = await TlsSocket.dial(listener.url, tls.client_context())
                await peer.upgrade()
                server = await guests.arrived()
                data = b"".join(peer.records(frame(TEXT, message)) for message in messages)
                peer.send_and_end(data, is_reset=True)
            assert isinstance(await server.ended(), ConnectionLost)
            assert server.messages == messages


@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_reset_that_comes_while_reading_is_paused_is_noticed_afterwards(
    guests: Acceptor, is_secure: bool
) -> None:
    async with listening(guests, tls.server_context() if is_secure else None) as listener:
        messages = [bytes([number]) * 1000 for number in range(20)]
        watched = frame(TEXT, b"first")
        if is_secure:
            peer = await TlsSocket.dial(listener.url, tls.client_context())
            await peer.upgrade()
            server = await guests.arrived()
            server.link.pause_reading()
            peer.send_and_end(
                b"".join(peer.records(frame(TEXT, message)) for message in messages)
                + peer.records(watched)[:9],
                is_reset=True,
            )
        else:
            plain = await RawPeer.upgrade(listener.url)
            server = await guests.arrived()
            server.link.pause_reading()
            plain.send(*(frame(TEXT, message) for message in messages), watched[:5])
            await plain.flush()
            plain.reset()
        # A connection that comes later is served later: the reset has been told by then.
        (await RawPeer.dial(listener.url)).reset()
        await asyncio.sleep(0)
        server.link.resume_reading()
        assert isinstance(await server.ended(), ConnectionLost)
        assert server.messages == messages


async def gone(listener: Listener) -> None:
    """Wait until nobody is in the middle of a handshake any more."""
    handshakes: PendingHandshakes = listener._arrivals._handshakes  # type: ignore[attr-defined]
    async with asyncio.timeout(PATIENCE_S):
        await handshakes._all_gone.wait()


def half_of(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("portion", [lambda _: b"", lambda data: data[:1], half_of, lambda data: data])
async def test_a_peer_that_ends_in_the_tls_handshake_is_let_go_at_once(
    guests: Acceptor, portion: Callable[[bytes], bytes], is_reset: bool
) -> None:
    async with listening(guests, tls.server_context()) as listener:
        for _ in range(20):
            peer = await TlsSocket.dial(listener.url, tls.client_context())
            peer.send_and_end(portion(peer.hello()), is_reset=is_reset)
        # It is served, and was accepted after them.
        late = await TlsSocket.dial(listener.url, tls.client_context())
        await late.upgrade()
        await gone(listener)
        late.socket.close()


@pytest.mark.parametrize("is_reset", [True, False])
@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_peer_that_ends_in_the_middle_of_its_request_is_let_go_at_once(
    guests: Acceptor, is_secure: bool, is_reset: bool
) -> None:
    async with listening(guests, tls.server_context() if is_secure else None) as listener:
        host, port = listener.url.split("//")[1].split(":")
        loop = asyncio.get_running_loop()
        for _ in range(10):
            if is_secure:
                peer = await TlsSocket.dial(listener.url, tls.client_context())
                await peer.shake_hands()
                peer.send_and_end(peer.records(half_of(request()))[:-3], is_reset=is_reset)
                continue
            sock = socket.socket()
            sock.setblocking(False)
            await loop.sock_connect(sock, (host, int(port)))
            sock.send(half_of(request()))
            if is_reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            sock.close()
        link = await websocket.connect(
            listener.url, Acceptor(), ssl_context=tls.client_context() if is_secure else None
        )
        await gone(listener)
        link.abort()


@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_server_that_resets_in_the_handshake_is_told_of_at_once(is_secure: bool) -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        # The beginning of a record, and of a status line.
        sock = writer.get_extra_info("socket")
        os.write(sock.fileno(), bytes.fromhex("160303007a020000") if is_secure else b"HTTP/1.1 10")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    url = f"{'wss' if is_secure else 'ws'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for _ in range(5):
        with pytest.raises(ConnectError, match="connection reset by peer"):
            await websocket.connect(
                url, Acceptor(), timeout_s=3600, ssl_context=tls.client_context() if is_secure else None
            )
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("is_secure", [True, False])
async def test_a_connection_that_is_reset_at_once_closes_its_descriptor_once(is_secure: bool) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:

        def reset_all() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                    sock.close()

        resetting = threading.Thread(target=reset_all)
        resetting.start()
        url = f"{'wss' if is_secure else 'ws'}://127.0.0.1:{listener.getsockname()[1]}"
        context = tls.client_context() if is_secure else None
        failures = set()
        for _ in range(300):
            try:
                await websocket.connect(url, Acceptor(), timeout_s=3600, ssl_context=context)
            except ConnectError as error:
                failures.add(str(error))
        listener.shutdown(socket.SHUT_RDWR)
        resetting.join()
    # A second close hits the next connection, which has the same number.
    assert failures == {f"can't connect to {url}: connection reset by peer"}


# ---------------------------------------------------------------- what came before an end

MANY = [b"%d" % number for number in range(2000)]
"""More than one turn takes, and more than one read."""


async def send_many_and_end(
    listener: Listener, guests: Acceptor, *, is_secure: bool, is_polite: bool
) -> Recorder:
    """Send much and end the connection, all before anybody else's turn. Give the server's recorder."""
    data = b"".join(frame(TEXT, message) for message in MANY)
    if is_secure:
        peer = await TlsSocket.dial(listener.url, tls.client_context())
        await peer.upgrade()
        server = await guests.arrived()
        records = peer.records(data)
        peer.send_and_end(records + (peer.close_notify() if is_polite else b""), is_reset=False)
    else:
        with await upgraded_socket(listener.url) as sock:
            server = await guests.arrived()
            assert sock.send(data) == len(data)
    return server


WAYS_TO_END = pytest.mark.parametrize(
    ("is_secure", "is_polite"), [(False, True), (True, False), (True, True)], ids=["plain", "TLS cut", "TLS"]
)


@WAYS_TO_END
@pytest.mark.parametrize("pauses", [False, True])
async def test_much_that_came_before_an_end_is_delivered(
    guests: Acceptor, is_secure: bool, is_polite: bool, pauses: bool
) -> None:
    async with listening(guests, tls.server_context() if is_secure else None) as listener:
        server = await send_many_and_end(listener, guests, is_secure=is_secure, is_polite=is_polite)

        def pause_often(message: bytes) -> None:
            if message.endswith(b"0"):
                server.link.pause_reading()
                asyncio.get_running_loop().call_soon(server.link.resume_reading)

        server.on_message = pause_often if pauses else None
        assert isinstance(await server.ended(), ConnectionLost)
        assert server.messages == MANY


@WAYS_TO_END
@pytest.mark.parametrize("end", ["close", "abort"])
async def test_an_owner_that_ends_a_link_in_the_middle_of_what_came_before_its_end_hears_no_more(
    guests: Acceptor, is_secure: bool, is_polite: bool, end: str
) -> None:
    async with listening(guests, tls.server_context() if is_secure else None) as listener:
        server = await send_many_and_end(listener, guests, is_secure=is_secure, is_polite=is_polite)

        def end_late(message: bytes) -> None:
            if message == MANY[1000]:
                getattr(server.link, end)()

        server.on_message = end_late
        assert await server.ended() is None
        assert server.messages == MANY[:1001]


async def test_an_owner_that_stays_paused_learns_of_the_end_after_the_close_timeout(guests: Acceptor) -> None:
    limits = WebSocketLimits(ping_interval_s=None, close_timeout_s=0.05)
    async with listening(guests, tls.server_context(), limits) as listener:
        server = await send_many_and_end(listener, guests, is_secure=True, is_polite=True)
        server.on_message = lambda _: server.link.pause_reading()
        assert isinstance(await server.ended(), ConnectionLost)
        assert server.messages == MANY[:1]


async def test_a_violation_among_what_came_before_an_end_is_told_of(guests: Acceptor) -> None:
    async with listening(guests, tls.server_context()) as listener:
        peer = await TlsSocket.dial(listener.url, tls.client_context())
        await peer.upgrade()
        server = await guests.arrived()
        data = b"".join(frame(TEXT, message) for message in MANY[:300]) + frame(TEXT, is_masked=False)
        records = peer.records(data)
        peer.send_and_end(records + peer.close_notify(), is_reset=False)
        assert isinstance(await server.ended(), ProtocolViolation)
        assert server.messages == MANY[:300]


@pytest.mark.parametrize("count", [3, 300], ids=["one turn", "two turns"])
async def test_a_close_frame_among_what_came_before_an_end_ends_the_link_politely(
    guests: Acceptor, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(guests, tls.server_context()) as listener:
        peer = await TlsSocket.dial(listener.url, tls.client_context())
        await peer.upgrade()
        server = await guests.arrived()
        data = b"".join(frame(TEXT, message) for message in MANY[:count]) + frame(CLOSE)
        records = peer.records(data)
        peer.send_and_end(records + peer.close_notify(), is_reset=False)
        assert await server.ended() is None
        assert server.messages == MANY[:count]
    # The loop tells of what goes wrong inside its transports nowhere else.
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]

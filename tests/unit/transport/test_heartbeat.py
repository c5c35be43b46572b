"""Who counts as gone: a peer that does not read lives as long as its host answers."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from paddock.errors import ConnectionLost
from paddock.transport import websocket
from paddock.transport.heartbeat import does_host_answer, has_unread_input
from paddock.transport.limits import WebSocketLimits
from paddock.transport.websocket_link import WebSocketLink
from tests import tls
from tests.unit.transport.raw_peer import PING, PONG, TEXT, RawPeer, frame
from tests.unit.transport.recorder import PATIENCE_S, Acceptor, Recorder

MIB = 1 << 20

IMPATIENT = WebSocketLimits(ping_interval_s=0.02, ping_timeout_s=0.05)

# setsockopt(2), SO_ATTACH_FILTER with the program "return 0": the kernel drops every packet for the socket
# before it looks at it, and acknowledges none, as if the host were gone.
_SO_ATTACH_FILTER = 26
_RETURN_NOTHING = struct.pack("=HBBI", 0x06, 0, 0, 0)


def pull_the_cable(sock: socket.socket) -> None:
    """Let whatever is sent to a socket vanish."""
    program = ctypes.create_string_buffer(_RETURN_NOTHING, len(_RETURN_NOTHING))
    address = struct.pack("HP", 1, ctypes.addressof(program))
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, address)
    except PermissionError:
        pytest.skip("this kernel lets only root give a socket a filter")


@asynccontextmanager
async def joined(acceptor: Acceptor, limits: WebSocketLimits) -> AsyncIterator[tuple[Recorder, RawPeer]]:
    """Connect a client of bare bytes, which answers no ping."""
    listener = await websocket.listen("127.0.0.1", 0, acceptor, limits)
    peer = await RawPeer.upgrade(listener.url)
    try:
        yield await acceptor.arrived(), peer
    finally:
        await peer.aclose()
        await listener.aclose()


async def outlast_timeouts() -> None:
    """Let many ping timeouts pass, by the pings of another connection that is as fast."""
    listener = await websocket.listen(
        "127.0.0.1", 0, Acceptor(), WebSocketLimits(ping_interval_s=IMPATIENT.ping_timeout_s)
    )
    clock = await RawPeer.upgrade(listener.url)
    for _ in range(30):
        await clock.next_frame()
    await clock.aclose()
    await listener.aclose()


async def test_a_client_that_reads_nothing_for_long_is_kept_and_gets_every_byte(acceptor: Acceptor) -> None:
    async with joined(acceptor, IMPATIENT) as (server, peer):
        peer.pause_reading()
        sent = 0
        while not server.events:
            server.link.send(bytes([sent % 256]) * MIB)
            sent += 1
        await outlast_timeouts()
        assert not server.is_closed
        assert server.link.is_silent
        peer.go_on_reading()
        got = 0
        while got < sent:
            opcode, payload = await peer.next_frame()
            if opcode == TEXT:
                assert payload == bytes([got % 256]) * MIB
                got += 1
        for count in range(1, 20):
            while (await peer.next_frame())[0] != PING:
                pass
            peer.send(frame(PONG), frame(TEXT, b"here again"))
            await server.received(count)
            assert not server.link.is_silent


@pytest.mark.parametrize("size_bytes", [0, 20_000])
async def test_a_client_that_is_stopped_is_kept_whether_or_not_it_has_something_to_read(
    acceptor: Acceptor, size_bytes: int
) -> None:
    async with joined(acceptor, IMPATIENT) as (server, peer):
        peer.pause_reading()
        if size_bytes:
            server.link.send(b"x" * size_bytes)
        await outlast_timeouts()
        assert not server.is_closed
        assert server.link.is_silent


@pytest.mark.parametrize("is_behind", [False, True])
async def test_a_client_is_dropped_when_its_host_is_gone(acceptor: Acceptor, is_behind: bool) -> None:
    limits = WebSocketLimits(ping_interval_s=0.2, ping_timeout_s=0.3)
    async with joined(acceptor, limits) as (server, peer):
        peer.pause_reading()
        while is_behind and not server.events:
            server.link.send(b"x" * MIB)
        pull_the_cable(peer.socket)
        error = await server.ended()
        assert isinstance(error, ConnectionLost)
        assert "silent" in str(error)


async def test_a_host_answers_for_a_program_that_does_not_read(acceptor: Acceptor) -> None:
    async with joined(acceptor, WebSocketLimits(ping_interval_s=None)) as (server, peer):
        assert isinstance(server.link, WebSocketLink)
        sock = server.link._socket
        assert does_host_answer(sock, within_s=0.0)
        peer.pause_reading()
        while not server.events:
            server.link.send(b"x" * MIB)
        assert does_host_answer(sock, within_s=PATIENCE_S)


async def test_a_server_that_does_not_read_says_that_it_lives() -> None:
    servers, clients = Acceptor(), Acceptor()
    listener = await websocket.listen("127.0.0.1", 0, servers, IMPATIENT)
    await websocket.connect(listener.url, clients, IMPATIENT)
    server, client = await servers.arrived(), await clients.arrived()
    for paused, other in ((server, client), (client, server)):
        paused.link.pause_reading()
        other.link.send(b"waits")
        await outlast_timeouts()
        assert not server.is_closed
        assert not client.is_closed
        paused.link.resume_reading()
        assert await paused.received(1) == [b"waits"]
    await listener.aclose()


@pytest.mark.parametrize("is_secure", [False, True])
async def test_input_that_this_end_has_not_read_is_a_sign_of_life(is_secure: bool) -> None:
    servers, clients = Acceptor(), Acceptor()
    context = tls.server_context() if is_secure else None
    listener = await websocket.listen("127.0.0.1", 0, servers, ssl_context=context)
    await websocket.connect(listener.url, clients, ssl_context=tls.client_context() if is_secure else None)
    server, client = await servers.arrived(), await clients.arrived()
    assert isinstance(client.link, WebSocketLink)
    client.link.pause_reading()
    server.link.send(b"hello")
    async with asyncio.timeout(PATIENCE_S):
        while not has_unread_input(client.link._socket):
            await outlast_timeouts()
    client.link.resume_reading()
    await client.received(1)
    assert not has_unread_input(client.link._socket)
    await listener.aclose()


def test_of_a_socket_that_is_closed_nothing_is_believed() -> None:
    with socket.socket() as sock:
        assert does_host_answer(sock, 1.0)
        assert not has_unread_input(sock)
    assert not does_host_answer(sock, 1.0)
    assert not has_unread_input(sock)

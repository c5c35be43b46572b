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
from tests.unit.transport.recorder import PATIENCE_S, Doorman, Recorder

MIB = 1 << 20

IMPATIENT = WebSocketLimits(ping_interval_s=0.02, ping_timeout_s=0.05)

# setsockopt(2), SO_ATTACH_FILTER with the program "return 0": the kernel drops every packet for the socket
# before it looks at it, and acknowledges none, as if the host were gone.
_SO_ATTACH_FILTER = 26
_RETURN_NOTHING = struct.pack("=HBBI", 0x06, 0, 0, 0)


def pull_the_cable(sock: socket.socket) -> None:
    """Let whatever is sent to a socket vanish."""
    program = ctypes.create_string_buffer(_RETURN_NOTHING, len(_RETURN_NOTHING))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


@asynccontextmanager
async def joined(doorman: Doorman, limits: WebSocketLimits) -> AsyncIterator[tuple[Recorder, RawPeer]]:
    """Connect a client of bare bytes, which answers no ping."""
    listener = await websocket.listen("127.0.0.1", 0, doorman, limits)
    peer = await RawPeer.upgrade(listener.url)
    try:
        yield await doorman.guest(), peer
    finally:
        await peer.aclose()
        await listener.aclose()


async def outlast_timeouts() -> None:
    """Let many ping timeouts pass, by the pings of another connection that is as fast."""
    listener = await websocket.listen(
        "127.0.0.1", 0, Doorman(), WebSocketLimits(ping_interval_s=IMPATIENT.ping_timeout_s)
    )
    clock = await RawPeer.upgrade(listener.url)
    for _ in range(30):
        await clock.next_frame()
    await clock.aclose()
    await listener.aclose()


async def test_a_client_that_reads_nothing_for_long_is_kept_and_gets_every_byte(doorman: Doorman) -> None:
    async with joined(doorman, IMPATIENT) as (server, peer):
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


async def test_a_client_with_output_to_read_in_its_kernel_is_kept(doorman: Doorman) -> None:
    async with joined(doorman, IMPATIENT) as (server, peer):
        peer.pause_reading()
        server.link.send(b"x" * 20_000)
        await outlast_timeouts()
        assert not server.is_closed
        assert server.link.is_silent


async def test_a_client_that_reads_nothing_is_dropped_when_its_host_is_gone(doorman: Doorman) -> None:
    limits = WebSocketLimits(ping_interval_s=0.2, ping_timeout_s=0.3)
    async with joined(doorman, limits) as (server, peer):
        peer.pause_reading()
        while not server.events:
            server.link.send(b"x" * MIB)
        pull_the_cable(peer.socket)
        error = await server.ended()
        assert isinstance(error, ConnectionLost)
        assert "silent" in str(error)


async def test_a_host_answers_for_a_program_that_does_not_read(doorman: Doorman) -> None:
    async with joined(doorman, WebSocketLimits(ping_interval_s=None)) as (server, peer):
        assert isinstance(server.link, WebSocketLink)
        sock = server.link._socket
        assert does_host_answer(sock, within_s=0.0)
        peer.pause_reading()
        while not server.events:
            server.link.send(b"x" * MIB)
        assert does_host_answer(sock, within_s=PATIENCE_S)


async def test_a_server_that_does_not_read_says_that_it_lives() -> None:
    servers, clients = Doorman(), Doorman()
    listener = await websocket.listen("127.0.0.1", 0, servers, IMPATIENT)
    await websocket.connect(listener.url, clients, IMPATIENT)
    server, client = await servers.guest(), await clients.guest()
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
    servers, clients = Doorman(), Doorman()
    context = tls.server_context() if is_secure else None
    listener = await websocket.listen("127.0.0.1", 0, servers, ssl_context=context)
    await websocket.connect(listener.url, clients, ssl_context=tls.client_context() if is_secure else None)
    server, client = await servers.guest(), await clients.guest()
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

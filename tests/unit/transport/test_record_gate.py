"""Floods of small TLS records: others have their turns, and what comes in order stays in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from paddock.errors import ConnectionLost
from paddock.transport import websocket
from paddock.transport.handshake import ServerHandshake
from paddock.transport.input_turns import InputShare
from paddock.transport.limits import WebSocketLimits
from paddock.transport.listener import Listener
from paddock.transport.record_gate import FIRST_RECORDS, RECORDS_PER_TURN, RecordGate
from tests import tls
from tests.turn_count import counted
from tests.unit.transport.key_changes import KeyChanger
from tests.unit.transport.raw_peer import TEXT, TlsSocket, frame
from tests.unit.transport.recorder import Acceptor, Recorder

FLOOD = 3000
PATIENT = WebSocketLimits(ping_interval_s=None, handshake_timeout_s=3600, close_timeout_s=3600)


@pytest.fixture
async def guests() -> AsyncIterator[Acceptor]:
    guests = Acceptor()
    yield guests
    await guests.aclose()


@pytest.fixture
async def listener(guests: Acceptor) -> AsyncIterator[Listener]:
    listener = await websocket.listen("127.0.0.1", 0, guests, PATIENT, ssl_context=tls.server_context())
    yield listener
    await listener.aclose()


async def flooder(listener: Listener, guests: Acceptor, directory: Path) -> tuple[KeyChanger, Recorder]:
    peer = await KeyChanger.dial(listener.url, directory)
    # What is sent must have come as a whole before the server looks.
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return peer, await guests.arrived()


async def test_changes_of_keys_without_end_let_others_have_their_turns(
    listener: Listener, guests: Acceptor, tmp_path: Path
) -> None:
    peer, flooded = await flooder(listener, guests, tmp_path)
    other = await TlsSocket.dial(listener.url, tls.client_context())
    await other.upgrade()
    served = await guests.arrived(1)
    flood = b"".join(peer.key_change() for _ in range(FLOOD)) + peer.data(frame(TEXT, b"at last"))
    greeting = other.records(frame(TEXT, b"hello"))
    with counted(RecordGate, "turn") as turns:
        sent = peer.socket.send(flood)
        other.socket.send(greeting)
        await served.received(1)
        assert flooded.messages == []
        await asyncio.get_running_loop().sock_sendall(peer.socket, flood[sent:])
        await flooded.received(1)
    assert (served.messages, flooded.messages) == ([b"hello"], [b"at last"])
    assert turns.most == 1
    assert turns.on_loop >= FLOOD / (FIRST_RECORDS + RECORDS_PER_TURN)
    other.socket.close()
    peer.socket.close()


async def test_handshakes_have_one_turn_after_the_other(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Everything waits for its turn, and one part takes all of the time.
    monkeypatch.setattr(InputShare, "has_room", False)
    monkeypatch.setattr("paddock.transport.input_turns.COMMON_S", 0.0)
    port = int(listener.url.rpartition(":")[2])
    context = tls.client_context()
    with counted(ServerHandshake, "connection_made") as completed:
        peers = await asyncio.gather(
            *(asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(12))
        )
        for _, writer in peers:
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
        for reader, writer in peers:
            assert b" 400 " in await reader.read()
            writer.transport.abort()
    assert (completed.on_loop, completed.most) == (len(peers), 1)


@pytest.mark.parametrize("is_reset", [True, False])
async def test_what_came_before_the_end_is_delivered_before_it(
    listener: Listener, guests: Acceptor, is_reset: bool
) -> None:
    peer = await TlsSocket.dial(listener.url, tls.client_context())
    await peer.upgrade()
    server = await guests.arrived()
    messages = [b"%d" % number for number in range(10 * RECORDS_PER_TURN)]
    data = b"".join(peer.records(frame(TEXT, message)) for message in messages)
    peer.send_and_end(data + peer.records(frame(TEXT, b"torn"))[:3], is_reset=is_reset)
    assert isinstance(await server.ended(), ConnectionLost)
    assert server.messages == messages


async def test_link_that_is_dropped_in_the_middle_of_a_flood_hears_no_more(
    listener: Listener, guests: Acceptor
) -> None:
    peer = await TlsSocket.dial(listener.url, tls.client_context())
    await peer.upgrade()
    server = await guests.arrived()

    server.on_message = lambda _: server.link.abort()
    peer.socket.send(b"".join(peer.records(frame(TEXT, b"x")) for _ in range(10 * RECORDS_PER_TURN)))
    await server.ended()
    assert len(server.messages) == 1
    peer.socket.close()

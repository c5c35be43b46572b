"""Room for strangers: how many may be in the middle of their handshake, and who makes room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from paddock.errors import ConnectError
from paddock.transport import websocket
from paddock.transport.limits import WebSocketLimits
from paddock.transport.listener import Listener
from tests.unit.transport.raw_peer import RawPeer, request
from tests.unit.transport.recorder import Acceptor

ROOM = 3


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    """Have room for three handshakes, which may take for ever."""
    limits = WebSocketLimits(handshake_timeout_s=3600, max_handshakes=ROOM)
    listener = await websocket.listen("127.0.0.1", 0, Acceptor(), limits)
    yield listener
    await listener.aclose()


async def _hesitate(listener: Listener) -> RawPeer:
    peer = await RawPeer.dial(listener.url)
    peer.send(b"GET / HTTP/1.1\r\n")
    await peer.flush()
    return peer


async def test_the_oldest_unfinished_handshake_makes_room_for_a_new_one(
    listener: Listener, acceptor: Acceptor
) -> None:
    hesitant = [await _hesitate(listener) for _ in range(ROOM)]
    link = await websocket.connect(listener.url, acceptor)
    assert await hesitant[0].rest() == b""
    for peer in hesitant[1:]:
        peer.send(request().partition(b"\r\n")[2])
        assert (await peer.head()).startswith("HTTP/1.1 101 ")
    link.abort()
    for peer in hesitant:
        await peer.aclose()


async def test_links_take_no_room_of_handshakes(listener: Listener, acceptor: Acceptor) -> None:
    links = [await websocket.connect(listener.url, acceptor) for _ in range(2 * ROOM)]
    for recorder, link in zip(acceptor.recorders, links, strict=True):
        assert not recorder.is_closed
        link.abort()


async def test_peers_that_left_take_no_room(listener: Listener) -> None:
    first = await _hesitate(listener)
    for _ in range(3 * ROOM):
        passing = await RawPeer.dial(listener.url)
        passing.send(request("/", {"Host": "test"}))
        assert (await passing.head()).startswith("HTTP/1.1 400 ")
        await passing.rest()
        await passing.aclose()
    first.send(request().partition(b"\r\n")[2])
    assert (await first.head()).startswith("HTTP/1.1 101 ")
    await first.aclose()


async def test_ending_the_listener_waits_for_the_last_stranger(listener: Listener) -> None:
    hesitant = [await _hesitate(listener) for _ in range(2 * ROOM)]
    async with asyncio.timeout(10):
        await listener.aclose()
    for peer in hesitant:
        assert await peer.rest() == b""
        await peer.aclose()


# ---------------------------------------------------------------- credentials in requests


async def test_a_credential_is_not_logged_even_at_the_lowest_level(
    caplog: pytest.LogCaptureFixture, acceptor: Acceptor
) -> None:
    caplog.set_level(1)
    logging.getLogger("test").log(1, "the lowest level is seen")
    listener = await websocket.listen("127.0.0.1", 0, Acceptor())
    await websocket.connect(listener.url, acceptor, headers={"Authorization": "Bearer hunter2"})
    await listener.aclose()
    assert "the lowest level is seen" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    "value", ["Bearer hunter2\r\nX: y", "Bearer hunter2\0", "Bearer hunter2é", "hunter2\n"]
)
async def test_a_credential_that_is_no_header_is_refused_and_not_repeated(
    listener: Listener, value: str
) -> None:
    with pytest.raises(ConnectError, match="header Authorization holds characters") as caught:
        await websocket.connect(listener.url, Acceptor(), headers={"Authorization": value})
    assert "hunter2" not in f"{caught.value} {caught.value!r}"

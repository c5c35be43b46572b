"""Large output over TLS goes to the event loop's transport in pieces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from paddock.transport import websocket
from paddock.transport.limits import WebSocketLimits
from paddock.transport.paced_stream import PIECE_BYTES, PacedStream
from tests import tls
from tests.unit.transport.recorder import Acceptor

if TYPE_CHECKING:
    from typing_extensions import Buffer

MIB = 1 << 20


class Hoard(asyncio.Transport):
    """A transport that keeps what it is given until the test lets it leave."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.waiting_bytes = 0
        self.end = ""

    def write(self, data: Buffer) -> None:
        self.pieces.append(bytes(data))
        self.waiting_bytes += len(self.pieces[-1])

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high_bytes = high

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def is_closing(self) -> bool:
        return bool(self.end)

    def close(self) -> None:
        self.end = "closed"

    def abort(self) -> None:
        self.end = "aborted"


class Pace:
    """A paced stream on a hoard, and the reports it made."""

    def __init__(self, high: int = MIB, low: int = MIB // 4) -> None:
        self.hoard = Hoard()
        self.reports: list[str] = []
        self.stream = PacedStream(
            self.hoard, lambda: self.reports.append("paused"), lambda: self.reports.append("resumed")
        )
        self.stream.set_write_buffer_limits(high=high, low=low)

    def leave(self) -> None:
        """Let everything leave that the transport has."""
        self.hoard.waiting_bytes = 0
        self.stream.stream_resumed()

    def fill(self) -> None:
        """Have the transport say that it has enough."""
        self.stream.stream_paused()


async def turn() -> None:
    await asyncio.sleep(0)


async def test_small_output_goes_straight_on() -> None:
    pace = Pace()
    pace.stream.write(b"a")
    pace.stream.writelines((b"b", b"c"))
    assert pace.hoard.pieces == [b"a", b"b", b"c"]


async def test_each_turn_gives_one_piece_and_all_arrives_in_order() -> None:
    pace = Pace(high=8 * MIB)
    large = bytes(range(256)) * (PIECE_BYTES // 256 * 3) + b"end"
    pace.stream.write(large)
    pace.stream.write(b"behind it")
    given = []
    while not b"".join(pace.hoard.pieces).endswith(b"behind it"):
        await turn()
        given.append(len(pace.hoard.pieces))
    assert given == [1, 2, 3, 4, 5]
    assert max(map(len, pace.hoard.pieces)) == PIECE_BYTES
    assert b"".join(pace.hoard.pieces) == large + b"behind it"


async def test_transport_that_has_enough_gets_no_more_until_it_says_so() -> None:
    pace = Pace()
    pace.fill()
    pace.stream.write(bytes(3 * PIECE_BYTES))
    await turn()
    assert pace.hoard.pieces == []
    pace.leave()
    await turn()
    assert len(pace.hoard.pieces) == 1


async def test_all_that_waits_counts_for_the_marks() -> None:
    pace = Pace()
    pace.stream.write(bytes(2 * MIB))
    assert pace.reports == ["paused"]
    assert pace.stream.get_write_buffer_size() == 2 * MIB
    for _ in range(2 * MIB // PIECE_BYTES):
        await turn()
        pace.leave()
    assert pace.reports == ["paused", "resumed"]
    assert pace.stream.get_write_buffer_size() == 0


async def test_close_waits_for_what_is_to_leave() -> None:
    pace = Pace()
    pace.stream.write(bytes(PIECE_BYTES + 1))
    pace.stream.close()
    assert pace.stream.is_closing()
    assert pace.hoard.end == ""
    await turn()
    assert pace.hoard.end == ""
    await turn()
    assert pace.hoard.end == "closed"
    assert sum(map(len, pace.hoard.pieces)) == PIECE_BYTES + 1


async def test_abort_drops_what_waits() -> None:
    pace = Pace()
    pace.stream.write(bytes(4 * PIECE_BYTES))
    pace.stream.abort()
    await turn()
    assert (pace.hoard.end, pace.hoard.pieces) == ("aborted", [])


async def test_connection_that_ends_by_itself_leaves_nothing_waiting() -> None:
    pace = Pace()
    pace.stream.write(bytes(4 * PIECE_BYTES))
    pace.hoard.end = "lost"
    await turn()
    assert pace.hoard.pieces == []
    assert pace.stream.get_write_buffer_size() == 0


@pytest.mark.parametrize("is_client", [True, False])
async def test_large_message_arrives_whole_and_never_waits_in_the_transport(is_client: bool) -> None:
    guests, hosts = Acceptor(), Acceptor()
    limits = WebSocketLimits(max_frame_bytes=64 * MIB, max_message_bytes=64 * MIB)
    listener = await websocket.listen("127.0.0.1", 0, guests, limits, ssl_context=tls.server_context())
    await websocket.connect(listener.url, hosts, limits, ssl_context=tls.client_context())
    server, client = await guests.arrived(), await hosts.arrived()
    sender, receiver = (client, server) if is_client else (server, client)
    message = bytes(48 * MIB)
    sender.link.send(message)
    stream = sender.link._pace._stream  # type: ignore[attr-defined]
    most = 0
    async with asyncio.timeout(20):
        while not receiver.messages:
            most = max(most, stream.get_write_buffer_size())
            await asyncio.sleep(0)
    assert receiver.messages == [message]
    # Records have heads, and the mark is looked at after a piece.
    assert most <= 3 * PIECE_BYTES
    sender.link.abort()
    await listener.aclose()

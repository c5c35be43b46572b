"""Frames: what a websocket link takes, answers and refuses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from msgspec import structs
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as independent_connect

from paddock.errors import ConnectionLost, MessageTooLarge, ProtocolViolation
from paddock.transport import websocket
from paddock.transport.limits import WebSocketLimits
from paddock.transport.link import Link
from paddock.transport.websocket_link import WebSocketLink
from tests.unit.transport.raw_peer import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    RawPeer,
    frame,
    upgrade_and_reset,
)
from tests.unit.transport.recorder import PATIENCE_S, Acceptor, Recorder

MIB = 1 << 20

QUIET = WebSocketLimits(ping_interval_s=None)

Serve = Callable[..., Awaitable[str]]
RawJoin = Callable[..., Awaitable[tuple[Recorder, RawPeer]]]
Join = Callable[..., Awaitable[tuple[Recorder, ClientConnection]]]


@pytest.fixture
async def resources() -> AsyncIterator[AsyncExitStack]:
    """Close what a test has opened, last first."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def serve(acceptor: Acceptor, resources: AsyncExitStack) -> Serve:
    """Listen and give the URL."""

    async def serve(limits: WebSocketLimits = QUIET) -> str:
        listener = await websocket.listen("127.0.0.1", 0, acceptor, limits)
        resources.push_async_callback(listener.aclose)
        return listener.url

    return serve


@pytest.fixture
def raw_join(serve: Serve, acceptor: Acceptor, resources: AsyncExitStack) -> RawJoin:
    """Connect a client of bare bytes: `server, peer = await raw_join(limits)`."""

    async def join(limits: WebSocketLimits = QUIET, then: tuple[bytes, ...] = ()) -> tuple[Recorder, RawPeer]:
        peer = await RawPeer.upgrade(await serve(limits), then)
        resources.push_async_callback(peer.aclose)
        return await acceptor.arrived(), peer

    return join


@pytest.fixture
def join(serve: Serve, acceptor: Acceptor, resources: AsyncExitStack) -> Join:
    """Connect a client of another library."""

    async def join(limits: WebSocketLimits = QUIET) -> tuple[Recorder, ClientConnection]:
        client = await resources.enter_async_context(
            independent_connect(
                await serve(limits), max_size=None, compression=None, ping_interval=None, proxy=None
            )
        )
        return await acceptor.arrived(), client

    return join


# ---------------------------------------------------------------- messages


async def test_text_and_binary_messages_are_taken_alike(join: Join) -> None:
    server, client = await join()
    await client.send("text ü")
    await client.send(b"binary")
    assert await server.received(2) == ["text ü".encode(), b"binary"]


async def test_messages_go_out_as_text(join: Join) -> None:
    server, client = await join()
    server.link.send(b'{"id":1}')
    server.link.send(bytearray(b'{"id":2}'))
    assert [await client.recv(), await client.recv()] == ['{"id":1}', '{"id":2}']


async def test_an_outgoing_message_may_be_larger_than_the_incoming_limit(join: Join) -> None:
    server, client = await join()
    server.link.send(b"x" * (20 * MIB))
    assert await client.recv() == "x" * (20 * MIB)


async def test_fragments_are_put_together(join: Join) -> None:
    server, client = await join()
    await client.send(["one", "", "two", "three"])
    await client.send([b"four", b"five"])
    await client.send("whole")
    assert await server.received(3) == [b"onetwothree", b"fourfive", b"whole"]


async def test_control_frames_between_fragments_do_not_disturb_them(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.send(
        frame(TEXT, b"one", is_final=False),
        frame(PING, b"?"),
        frame(PONG),
        frame(CONTINUATION, b"two"),
    )
    assert await server.received(1) == [b"onetwo"]
    assert await peer.next_frame() == (PONG, b"?")


async def test_frames_that_come_with_the_handshake_are_delivered(raw_join: RawJoin) -> None:
    server, _ = await raw_join(then=(frame(TEXT, b"early"), frame(BINARY, b"bird")))
    assert await server.received(2) == [b"early", b"bird"]


# ---------------------------------------------------------------- answers to what came together


async def test_answers_pongs_and_the_close_keep_their_order(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    server.on_message = server.link.send
    peer.send(frame(TEXT, b"1"), frame(TEXT, b"2"), frame(PING, b"?"), frame(TEXT, b"3"), frame(CLOSE))
    frames = [await peer.next_frame() for _ in range(5)]
    assert [opcode for opcode, _ in frames] == [TEXT, TEXT, PONG, TEXT, CLOSE]
    assert [payload for _, payload in frames[:4]] == [b"1", b"2", b"?", b"3"]


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_answers_before_the_owner_ends_the_link_still_leave(raw_join: RawJoin, end: str) -> None:
    server, peer = await raw_join(structs.replace(QUIET, close_timeout_s=0.1))

    def answer(message: bytes) -> None:
        server.link.send(b"answer to " + message)
        if message == b"2":
            getattr(server.link, end)()

    server.on_message = answer
    peer.send(*(frame(TEXT, b"%d" % number) for number in (1, 2, 3)))
    assert await peer.next_frame() == (TEXT, b"answer to 1")
    assert await peer.next_frame() == (TEXT, b"answer to 2")
    assert b"answer" not in await peer.rest()


async def test_nothing_follows_the_close_frame_that_answers_a_violation(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    server.on_message = server.link.send
    peer.send(*(frame(TEXT, b"answer") for _ in range(3)), frame(TEXT, b"not masked", is_masked=False))
    _, close_frame, after = (await peer.rest()).rpartition(bytes([0x80 | CLOSE]))
    assert close_frame
    assert b"answer" not in after


async def test_large_and_small_messages_in_any_mixture_arrive_whole_and_in_order(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    sizes = [100_000] * 12 + [10] * 500 + [300_000, 5, 40_000] * 5
    messages = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    peer.send(*(frame(TEXT, message) for message in messages))
    assert await server.received(len(messages)) == messages


# ---------------------------------------------------------------- limits and violations


async def test_a_frame_over_the_limit_drops_the_link_before_its_payload_came(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, claimed_bytes=16 * MIB + 1))
    error = await server.ended()
    assert isinstance(error, MessageTooLarge)
    assert error.limit_bytes == 16 * MIB
    await peer.rest()


async def test_a_frame_over_the_limit_is_not_delivered_even_if_it_comes_at_once(raw_join: RawJoin) -> None:
    server, peer = await raw_join(structs.replace(QUIET, max_frame_bytes=1000))
    peer.send(frame(TEXT, b"x" * 1001), frame(TEXT, b"after"))
    assert isinstance(await server.ended(), MessageTooLarge)
    assert server.messages == []


async def test_a_frame_of_exactly_the_limit_is_delivered(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, b"x" * (16 * MIB)))
    assert await server.received(1) == [b"x" * (16 * MIB)]


async def test_fragments_over_the_message_limit_drop_the_link(raw_join: RawJoin) -> None:
    server, peer = await raw_join(structs.replace(QUIET, max_message_bytes=1000, max_frame_bytes=600))
    half = b"x" * 500
    peer.send(frame(TEXT, half, is_final=False), frame(CONTINUATION, half))
    assert await server.received(1) == [half + half]
    peer.send(frame(TEXT, half, is_final=False), frame(CONTINUATION, half + b"x"), frame(TEXT, b"after"))
    error = await server.ended()
    assert isinstance(error, MessageTooLarge)
    assert error.limit_bytes == 1000
    assert len(server.messages) == 1


VIOLATIONS = {
    "unmasked": [frame(TEXT, b"x", is_masked=False)],
    "reserved bit": [frame(TEXT, b"x", reserved=0b100)],
    "reserved bit on a ping": [frame(PING, b"x", reserved=0b001)],
    "unknown opcode": [frame(0x3, b"x")],
    "continuation of nothing": [frame(CONTINUATION, b"x")],
    "message inside a message": [frame(TEXT, b"x", is_final=False), frame(TEXT, b"y")],
    "fragmented ping": [frame(PING, b"x", is_final=False)],
    "large ping": [frame(PING, b"x" * 126)],
    "length in too many bytes": [b"\x81\xfe\x00\x01mask."],
    "negative length": [b"\x81\xff" + b"\xff" * 8 + b"mask"],
    "close with half a code": [frame(CLOSE, b"\x03")],
    "close with a forbidden code": [frame(CLOSE, (999).to_bytes(2, "big"))],
    "close with a bad reason": [frame(CLOSE, (1000).to_bytes(2, "big") + b"\xff")],
}


async def test_messages_before_a_violation_are_delivered_and_none_after(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, b"one"), frame(TEXT, b"two"), frame(0x3), frame(TEXT, b"three"))
    assert isinstance(await server.ended(), ProtocolViolation)
    assert server.messages == [b"one", b"two"]


async def test_a_violation_by_a_peer_that_was_dismissed_anyway_is_no_fault(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    server.link.close()
    peer.send(frame(TEXT, b"x", reserved=0b100))
    assert await server.ended() is None


@pytest.mark.parametrize("frames", VIOLATIONS.values(), ids=VIOLATIONS.keys())
async def test_a_violation_drops_the_link(raw_join: RawJoin, frames: list[bytes]) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, b"good"))
    await server.received(1)
    peer.send(*frames)
    assert isinstance(await server.ended(), ProtocolViolation)
    assert server.messages == [b"good"]
    await peer.rest()


async def test_a_violation_that_comes_with_the_handshake_drops_the_link(raw_join: RawJoin) -> None:
    server, _ = await raw_join(then=(frame(TEXT, b"x", is_masked=False),))
    assert isinstance(await server.ended(), ProtocolViolation)


async def test_a_violation_drops_the_link_although_the_peer_reads_nothing(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    while server.link.buffered_bytes < 8 * MIB:
        server.link.send(b"x" * MIB)
    peer.send(frame(TEXT, b"x", is_masked=False))
    assert isinstance(await server.ended(), ProtocolViolation)


# ---------------------------------------------------------------- keep-alive


async def test_pings_are_answered(join: Join) -> None:
    _, client = await join()
    answer = await client.ping(b"are you there")
    assert await answer >= 0


async def test_pings_of_a_peer_that_reads_nothing_do_not_pile_up_answers(raw_join: RawJoin) -> None:
    limits = structs.replace(QUIET, write_high_water_bytes=65536)
    server, peer = await raw_join(limits)
    peer.stop_reading()
    while server.link.buffered_bytes < 8 * MIB:
        server.link.send(b"x" * MIB)
    queued = server.link.buffered_bytes
    peer.send(frame(PING, b"p" * 125) * 10_000, frame(TEXT, b"done"))
    await server.received(1)
    assert server.link.buffered_bytes <= queued


async def test_the_server_pings_at_its_interval_with_an_empty_payload(raw_join: RawJoin) -> None:
    _, peer = await raw_join(WebSocketLimits(ping_interval_s=0.01))
    assert [await peer.next_frame() for _ in range(3)] == [(PING, b"")] * 3


async def test_an_idle_link_keeps_no_buffer(raw_join: RawJoin) -> None:
    server, peer = await raw_join(WebSocketLimits(ping_interval_s=0.01))
    peer.send(*[frame(TEXT, b"x" * MIB)] * 3)
    await server.received(3)
    assert isinstance(server.link, WebSocketLink)
    async with asyncio.timeout(PATIENCE_S):
        while len(server.link._reader._view):
            await peer.next_frame()


async def test_a_peer_that_never_answers_is_kept_if_no_timeout_is_set(raw_join: RawJoin) -> None:
    server, peer = await raw_join(WebSocketLimits(ping_interval_s=0.01))
    for _ in range(5):
        await peer.next_frame()
    assert not server.is_closed


# Ten intervals outlast the timeout; a peer on a busy machine still answers within it.
IMPATIENT = WebSocketLimits(ping_interval_s=0.15, ping_timeout_s=1.2)


async def test_a_peer_that_answers_pings_is_kept(raw_join: RawJoin) -> None:
    server, peer = await raw_join(IMPATIENT)
    for _ in range(10):
        assert await peer.next_frame() == (PING, b"")
        peer.send(frame(PONG))
    assert not server.is_closed


async def test_a_peer_whose_long_frame_trickles_in_is_not_silent(raw_join: RawJoin) -> None:
    server, peer = await raw_join(IMPATIENT)
    whole = frame(TEXT, b"x" * 4)
    assert len(whole) == 10
    for position in range(10):
        await peer.next_frame()
        peer.send(whole[position : position + 1])
    assert await server.received(1) == [b"xxxx"]


async def test_a_peer_is_not_silent_while_the_owner_does_not_listen(raw_join: RawJoin) -> None:
    server, peer = await raw_join(WebSocketLimits(ping_interval_s=0.1, ping_timeout_s=0.3))
    server.link.pause_reading()
    for _ in range(5):
        await peer.next_frame()
    assert not server.is_closed
    peer.send(frame(TEXT, b"still here"))
    server.link.resume_reading()
    assert await server.received(1) == [b"still here"]


# ---------------------------------------------------------------- floods


@pytest.mark.parametrize("opcode", [TEXT, PING, PONG])
async def test_a_flood_of_empty_frames_lets_others_have_their_turns(raw_join: RawJoin, opcode: int) -> None:
    server, peer = await raw_join()
    loop = asyncio.get_running_loop()
    turns: list[int] = [0]
    seen: dict[bytes, int] = {}

    def count() -> None:
        turns[0] += 1
        if b"last" not in seen:
            loop.call_soon(count)

    server.on_message = lambda message: seen.update({message: turns[0]})
    count()
    peer.send(frame(TEXT, b"first"), frame(opcode) * 1500, frame(TEXT, b"last"))
    await server.until(lambda: b"last" in seen)
    assert seen[b"last"] > seen[b"first"] + 1


async def test_bulk_data_lets_others_have_their_turns(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    loop = asyncio.get_running_loop()
    is_over = False
    taken_bytes = [0]

    def count() -> None:
        taken_bytes.append(0)
        if not is_over:
            loop.call_soon(count)

    def add(message: bytes) -> None:
        taken_bytes[-1] += len(message)

    server.on_message = add
    messages = [bytes([number]) * 64 * 1024 for number in range(100)]
    server.link.pause_reading()
    # As much as the kernel takes is there when reading goes on.
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * MIB)
    peer.send(*(frame(TEXT, message) for message in messages))
    for _ in range(10):
        await asyncio.sleep(0)
    server.link.resume_reading()
    count()
    assert await server.received(len(messages)) == messages
    is_over = True
    # One read, and what is left of the one before.
    assert max(taken_bytes) <= 2 * MIB


async def test_a_long_read_keeps_its_order_through_pauses(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    messages = [b"%d" % number for number in range(5000)]

    def pause_often(message: bytes) -> None:
        if message.endswith(b"99"):
            server.link.pause_reading()
            asyncio.get_running_loop().call_soon(server.link.resume_reading)

    server.on_message = pause_often
    peer.send(*(frame(TEXT, message) for message in messages))
    assert await server.received(len(messages)) == messages
    peer.send(frame(TEXT, b"afterwards"))
    assert (await server.received(len(messages) + 1))[-1] == b"afterwards"


async def test_a_close_frame_behind_a_flood_is_answered(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, b"x") * 5000, frame(CLOSE))
    assert await server.ended() is None
    assert len(server.messages) == 5000
    assert await peer.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))


async def test_a_link_that_is_dropped_in_the_middle_of_a_flood_hears_no_more(raw_join: RawJoin) -> None:
    server, peer = await raw_join()

    def drop_late(message: bytes) -> None:
        if len(server.messages) == 2000:
            server.link.abort()

    server.on_message = drop_late
    peer.send(frame(TEXT, b"x") * 5000)
    await server.ended()
    assert len(server.messages) == 2000


# ---------------------------------------------------------------- ends


async def test_closing_sends_a_close_frame_after_what_is_queued(join: Join) -> None:
    server, client = await join()
    server.link.send(b"last words")
    server.link.close()
    assert await client.recv() == "last words"
    await client.wait_closed()
    assert client.close_code == 1000
    assert await server.ended() is None


async def test_closing_ends_although_the_peer_never_answers(raw_join: RawJoin) -> None:
    server, peer = await raw_join(structs.replace(QUIET, close_timeout_s=0.02))
    server.link.close()
    assert await server.ended() is None
    assert await peer.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))


async def test_messages_that_come_while_closing_are_not_delivered(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    server.link.close()
    peer.send(frame(TEXT, b"too late"), frame(PING), frame(CLOSE, (1000).to_bytes(2, "big")))
    assert await server.ended() is None
    assert server.messages == []


async def test_aborting_sends_no_close_frame(join: Join) -> None:
    server, client = await join()
    server.link.abort()
    await client.wait_closed()
    assert client.close_code == 1006
    assert await server.ended() is None


@pytest.mark.parametrize("payload", [b"", (1000).to_bytes(2, "big"), (1001).to_bytes(2, "big") + b"bye"])
async def test_a_peer_that_closes_politely_gets_an_answer_and_a_clean_end(
    raw_join: RawJoin, payload: bytes
) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, b"first"), frame(CLOSE, payload), frame(TEXT, b"after"))
    assert await server.ended() is None
    assert server.messages == [b"first"]
    assert await peer.next_frame() == (CLOSE, (1000).to_bytes(2, "big"))


@pytest.mark.parametrize("code", [1011, 3000, 4999])
async def test_a_peer_that_closes_with_a_fault_is_quoted(join: Join, code: int) -> None:
    server, client = await join()
    await client.close(code, "out of coffee")
    error = await server.ended()
    assert isinstance(error, ConnectionLost)
    assert f"code {code} out of coffee" in str(error)


async def test_a_peer_that_closes_and_reads_nothing_is_dropped_after_the_close_timeout(
    raw_join: RawJoin,
) -> None:
    server, peer = await raw_join(structs.replace(QUIET, close_timeout_s=0.02))
    while server.link.buffered_bytes < 8 * MIB:
        server.link.send(b"x" * MIB)
    peer.send(frame(CLOSE))
    assert await server.ended() is None


async def test_a_peer_that_vanishes_is_reported_as_lost(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.send(frame(TEXT, b"first"))
    await server.received(1)
    peer.end_output()
    error = await server.ended()
    assert isinstance(error, ConnectionLost)
    assert "without a close frame" in str(error)


async def test_a_reset_is_reported_with_its_cause(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    peer.reset()
    error = await server.ended()
    assert isinstance(error, ConnectionLost)
    assert isinstance(error.__cause__, ConnectionResetError)


async def test_a_reset_right_behind_half_a_message_is_noticed(serve: Serve, acceptor: Acceptor) -> None:
    await upgrade_and_reset(await serve(), frame(TEXT, b"first")[:-2])
    error = await (await acceptor.arrived()).ended()
    assert isinstance(error, ConnectionLost)
    assert isinstance(error.__cause__, ConnectionResetError)


async def test_a_peer_that_vanishes_while_the_writer_is_paused_ends_the_link(raw_join: RawJoin) -> None:
    server, peer = await raw_join()
    while not server.events:
        server.link.send(b"x" * MIB)
    peer.reset()
    assert isinstance(await server.ended(), ConnectionLost)


async def test_both_sides_send_without_delay(serve: Serve, acceptor: Acceptor) -> None:
    clients = Acceptor()
    await websocket.connect(await serve(), clients)
    for recorder in (await acceptor.arrived(), await clients.arrived()):
        # Reaches inside, because a delayed ACK would cost 40 ms per request and no message shows it.
        sock = recorder.link._stream.get_extra_info("socket")  # type: ignore[attr-defined]
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    await clients.aclose()


async def test_a_slow_reader_does_not_hold_up_another_link(
    serve: Serve, acceptor: Acceptor, resources: AsyncExitStack
) -> None:
    url = await serve()
    slow = await RawPeer.upgrade(url)
    resources.push_async_callback(slow.aclose)
    to_slow = await acceptor.arrived(0)
    while not to_slow.events:
        to_slow.link.send(b"x" * MIB)
    quick = await RawPeer.upgrade(url)
    resources.push_async_callback(quick.aclose)
    to_quick = await acceptor.arrived(1)
    to_quick.link.send(b"quick")
    assert await quick.next_frame() == (TEXT, b"quick")
    assert to_slow.events == ["paused"]


async def test_a_link_may_be_used_from_within_its_own_factory(
    resources: AsyncExitStack, acceptor: Acceptor
) -> None:
    class Greeting(Recorder):
        def __init__(self, link: Link) -> None:
            super().__init__(link)
            link.send(b"welcome")

    listener = await websocket.listen("127.0.0.1", 0, Greeting, QUIET)
    resources.push_async_callback(listener.aclose)
    link = await websocket.connect(listener.url, acceptor)
    client = await acceptor.arrived()
    assert await client.received(1) == [b"welcome"]
    link.close()
    await client.ended()

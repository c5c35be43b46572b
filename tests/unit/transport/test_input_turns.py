"""Whose input is handled next, by a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from paddock.transport import upgrade, websocket
from paddock.transport.input_turns import TURN_S, InputShare, InputTurns
from paddock.transport.limits import WebSocketLimits
from tests.turn_count import counted
from tests.unit.transport.raw_peer import TEXT, RawPeer, frame, request
from tests.unit.transport.recorder import Acceptor, Recorder

PART_S = 2 * TURN_S
OTHERS = 40


class Bench:
    """Connections that have input, each part of which takes as long as it says."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns = InputTurns(lambda: self.now_s)
        self.done: list[str] = []

    def part(self, name: str, share: InputShare, takes_s: float, *, is_endless: bool = False) -> None:
        """Ask for a turn, and after it for the next if there is more to come."""

        def work() -> None:
            self.now_s += takes_s
            self.done.append(name)
            if is_endless:
                share.wait(work)

        if share.has_room:
            share.run(work)
        else:
            share.wait(work)


async def turn_of_the_loop() -> None:
    await asyncio.sleep(0)


async def test_who_says_little_waits_for_one_part_of_the_others_however_many_they_are() -> None:
    bench = Bench()
    little = bench.turns.share()
    bench.part("little", little, 0.00001)
    for _ in range(OTHERS):
        bench.part("much", bench.turns.share(), PART_S, is_endless=True)
    for between in range(3 * OTHERS):
        bench.done.clear()
        bench.part("little", little, 0.00001)
        await turn_of_the_loop()
        await turn_of_the_loop()
        assert bench.done.index("little") <= 1
        for _ in range(between % 7):
            await turn_of_the_loop()


async def test_new_connection_gains_nothing_over_one_that_says_little() -> None:
    bench = Bench()
    little = bench.turns.share()
    bench.part("little", little, 0.00001)
    for number in range(OTHERS):
        bench.part(f"new {number}", bench.turns.share(), PART_S)
    bench.part("little", little, 0.00001)
    bench.done.clear()
    await turn_of_the_loop()
    assert bench.done[0] == "little"


async def test_nobody_is_kept_from_their_share() -> None:
    bench = Bench()
    bench.part("long", bench.turns.share(), 4 * PART_S, is_endless=True)
    bench.part("short", bench.turns.share(), PART_S, is_endless=True)
    for _ in range(300):
        await turn_of_the_loop()
    assert 2 <= bench.done.count("short") / bench.done.count("long") <= 8


async def test_one_turn_handles_no_more_than_its_time_and_one_part() -> None:
    bench = Bench()
    for _ in range(OTHERS):
        bench.part("part", bench.turns.share(), TURN_S * 0.6)
    while len(bench.done) < OTHERS:
        before = len(bench.done)
        await turn_of_the_loop()
        assert len(bench.done) - before <= 2


async def test_part_that_fails_costs_nobody_their_turn() -> None:
    bench = Bench()
    bench.part("first", bench.turns.share(), TURN_S)
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context["exception"]))

    def fail() -> None:
        raise ValueError("broken")

    bench.turns.share().wait(fail)
    bench.part("second", bench.turns.share(), TURN_S)
    for _ in range(3):
        await turn_of_the_loop()
    assert bench.done == ["first", "second"]
    assert len(failed) == 1


async def test_input_that_waits_for_its_turn_arrives_whole_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No turn has time for more than one part.
    monkeypatch.setattr("paddock.transport.input_turns.TURN_S", 1e-9)
    guests = Acceptor()
    listener = await websocket.listen("127.0.0.1", 0, guests, WebSocketLimits(ping_interval_s=None))
    messages = [b"%d" % number for number in range(2000)]
    peers: list[RawPeer] = []
    servers: list[Recorder] = []
    for number in range(5):
        peers.append(await RawPeer.upgrade(listener.url))
        servers.append(await guests.arrived(number))
    for peer in peers:
        peer.send(*(frame(TEXT, message) for message in messages))
    for server in servers:
        assert await server.received(len(messages)) == messages
    for peer in peers:
        peer.reset()
    for server in servers:
        await server.ended()
    await listener.aclose()


async def test_messages_that_were_held_back_are_passed_on_within_the_shared_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paddock.transport.input_turns.TURN_S", 1e-9)
    guests = Acceptor()
    listener = await websocket.listen("127.0.0.1", 0, guests, WebSocketLimits(ping_interval_s=None))
    messages = [b"%d" % number for number in range(100)]
    peers: list[RawPeer] = []
    servers: list[Recorder] = []
    for number in range(8):
        peers.append(await RawPeer.upgrade(listener.url))
        servers.append(await guests.arrived(number))
    for peer, server in zip(peers, servers, strict=True):
        # All messages come in one read, of which the first ends the reading.
        server.on_message = lambda _, link=server.link: link.pause_reading()
        peer.send(*(frame(TEXT, message) for message in messages))
        await server.received(1)
        server.on_message = None
    with counted(Recorder, "message_received") as count:
        for server in servers:
            server.link.resume_reading()
        for server in servers:
            assert await server.received(len(messages)) == messages
    assert count.on_loop == (len(messages) - 1) * len(servers)
    assert count.most < len(messages)
    for peer in peers:
        peer.reset()
    await listener.aclose()


async def test_requests_for_an_upgrade_are_read_within_the_shared_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paddock.transport.input_turns.TURN_S", 1e-9)
    guests = Acceptor()
    listener = await websocket.listen("127.0.0.1", 0, guests, WebSocketLimits(ping_interval_s=None))
    peers = [await RawPeer.dial(listener.url) for _ in range(20)]
    with counted(upgrade, "read_request") as count:
        for peer in peers:
            peer.send(request())
        for number in range(len(peers)):
            await guests.arrived(number)
    assert count.on_loop == len(peers)
    # The one whose turn it is, and the one that came when nobody waited.
    assert count.most <= 2
    for peer in peers:
        peer.reset()
    await listener.aclose()

"""Whose input is handled next, by a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from paddock.transport import upgrade, websocket
from paddock.transport.input_turns import COMMON_S, TURN_S, InputShare, InputTurns
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

    def part(
        self, name: str, share: InputShare, takes_s: float, *, is_endless: bool = False, size_bytes: int = 0
    ) -> None:
        """Ask for a turn, and after it for the next if there is more to come."""

        def work() -> None:
            self.now_s += takes_s
            self.done.append(name)
            if is_endless:
                share.wait(work)

        if share.has_room:
            share.run(work)
        else:
            share.wait(work, size_bytes)


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


async def test_who_says_little_again_and_again_is_not_put_behind_those_that_come_anew() -> None:
    bench = Bench()
    little = bench.turns.share()
    bench.part("little", little, 0.0002)
    for _ in range(200):
        bench.part("new", bench.turns.share(), PART_S)
    for _ in range(50):
        bench.done.clear()
        bench.part("little", little, 0.0002)
        await turn_of_the_loop()
        await turn_of_the_loop()
        assert bench.done.index("little") <= 1


async def test_who_has_said_little_before_gains_nothing_for_a_large_message() -> None:
    bench = Bench()
    quick = [bench.turns.share() for _ in range(OTHERS)]
    for _ in range(20):
        for share in quick:
            bench.part("quick", share, 0.000001)
    little = bench.turns.share()
    for _ in range(20):
        bench.part("little", little, 0.000002)
    for share in quick:
        # What came last of it is short: by then most of the message is there.
        bench.part("large", share, PART_S, size_bytes=70_000)
    for _ in range(OTHERS // 3):
        bench.done.clear()
        bench.part("little", little, 0.000002, size_bytes=50)
        await turn_of_the_loop()
        await turn_of_the_loop()
        assert bench.done.index("little") <= 1


async def test_all_that_have_a_share_in_common_count_as_one() -> None:
    bench = Bench()
    common, other = bench.turns.share(), bench.turns.share()
    for _ in range(OTHERS):
        bench.part("common", common, PART_S)
        bench.part("other", other, PART_S)
    for _ in range(OTHERS):
        await turn_of_the_loop()
    assert abs(bench.done.count("common") - bench.done.count("other")) <= 2


async def test_share_has_one_part_in_each_turn_and_keeps_their_order() -> None:
    bench = Bench()
    common = bench.turns.share()
    for number in range(OTHERS):
        common.wait(lambda number=number: bench.done.append(str(number)))  # type: ignore[misc]
    for number in range(OTHERS):
        assert len(bench.done) == number
        await turn_of_the_loop()
    assert bench.done == [str(number) for number in range(OTHERS)]


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


async def test_those_with_a_common_share_have_several_parts_in_one_turn() -> None:
    bench = Bench()
    bench.part("busy", bench.turns.share(), PART_S, is_endless=True)
    common = bench.turns.common_share()
    for _ in range(20):
        bench.part("stranger", common, COMMON_S / 4)
    for _ in range(2):
        bench.done.clear()
        await turn_of_the_loop()
        if "stranger" not in bench.done:
            await turn_of_the_loop()
        assert bench.done.count("stranger") == 4


async def test_strangers_have_one_share_of_the_time_together(monkeypatch: pytest.MonkeyPatch) -> None:
    # Everything waits for its turn, and one part takes all of the time.
    monkeypatch.setattr(InputShare, "has_room", False)
    monkeypatch.setattr("paddock.transport.input_turns.COMMON_S", 0.0)
    guests = Acceptor()
    listener = await websocket.listen("127.0.0.1", 0, guests, WebSocketLimits(ping_interval_s=None))
    peers = [await RawPeer.dial(listener.url) for _ in range(20)]
    with counted(upgrade, "read_request") as count:
        for peer in peers:
            peer.send(request())
        for number in range(len(peers)):
            await guests.arrived(number)
    assert (count.on_loop, count.most) == (len(peers), 1)
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

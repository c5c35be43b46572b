"""What a link promises, over every medium."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from paddock.errors import ConnectionLost, MessageTooLarge
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Link
from tests.turn_count import counted
from tests.unit.transport.media import MEDIA, MEDIA_WITH_LISTENER, MEDIA_WITH_OPENER, Meeting
from tests.unit.transport.recorder import Acceptor, Recorder

Join = Callable[..., Awaitable[tuple[Recorder, Recorder]]]

MIB = 1 << 20


@pytest.fixture(params=MEDIA)
def medium(request: pytest.FixtureRequest) -> str:
    """Name each medium in turn."""
    name: str = request.param
    return name


@pytest.fixture
async def join(acceptor: Acceptor, medium: str, tmp_path: Path) -> AsyncIterator[Join]:
    """Connect two recorders over the medium: `server, client = await join(limits)`."""
    meeting = Meeting(acceptor, tmp_path)

    async def join(limits: TransportLimits | None = None, **options: object) -> tuple[Recorder, Recorder]:
        return await meeting.join(medium, limits, **options)  # type: ignore[arg-type]

    yield join
    for recorder in acceptor.recorders:
        recorder.link.abort()
    await meeting.aclose()


async def test_messages_arrive_in_order_in_both_directions(join: Join) -> None:
    server, client = await join()
    sent = [f'{{"n":{n}}}'.encode() for n in range(2000)]
    for message in sent:
        client.link.send(message)
        server.link.send(message)
    assert await server.received(len(sent)) == sent
    assert await client.received(len(sent)) == sent


async def test_one_turn_of_the_loop_takes_a_bounded_number_of_messages_of_one_peer(join: Join) -> None:
    server, client = await join()
    sent = [b"%d" % n for n in range(5000)]
    with counted(server, "message_received") as count:
        for message in sent:
            client.link.send(message)
        assert await server.received(len(sent)) == sent
    # Twice, because a turn may go on with the last read and begin the next.
    assert count.most <= 2 * 256


async def test_what_is_held_back_for_later_turns_waits_for_a_reader_that_pauses(join: Join) -> None:
    server, client = await join()
    sent = [b"%d" % n for n in range(5000)]

    def pause_now_and_then(message: bytes) -> None:
        if len(server.messages) % 300 == 0:
            server.link.pause_reading()
            asyncio.get_running_loop().call_soon(server.link.resume_reading)

    server.on_message = pause_now_and_then
    for message in sent:
        client.link.send(message)
    assert await server.received(len(sent)) == sent
    client.link.close()
    await server.ended()


async def test_a_message_larger_than_all_buffers_arrives_whole(join: Join) -> None:
    server, client = await join()
    big = b'"' + b"0123456789abcdef" * (20 * MIB // 16) + b'"'
    server.link.send(big)
    server.link.send(b"next")
    assert await client.received(2) == [big, b"next"]


async def test_a_paused_reader_gets_nothing_not_even_what_has_arrived(join: Join) -> None:
    server, client = await join()

    def pause_at_third(message: bytes) -> None:
        if len(client.messages) == 3:
            client.link.pause_reading()

    client.on_message = pause_at_third
    sent = [b"%d" % n for n in range(10)]
    for message in sent:
        server.link.send(message)
    await client.received(3)
    # An answer that made the whole way round proves that there was time to break the promise.
    client.link.send(b"ping")
    await server.received(1)
    assert client.messages == sent[:3]
    client.link.resume_reading()
    client.link.resume_reading()
    assert await client.received(10) == sent


async def test_a_receiver_may_pause_its_link_before_the_first_message(
    medium: str, acceptor: Acceptor, tmp_path: Path
) -> None:
    class Pausing(Acceptor):
        def __call__(self, link: Link) -> Recorder:
            link.pause_reading()
            return super().__call__(link)

    paused = Pausing()
    meeting = Meeting(acceptor, tmp_path)
    await meeting.join(medium, TransportLimits(write_high_water_bytes=65536), accept=paused)
    server, client = await paused.arrived(), acceptor.recorders[0]
    acceptor.recorders.append(server)
    # The writer can only be paused if the reader's link does not read either.
    while not client.events:
        client.link.send(b"x" * 65536)
        await asyncio.sleep(0)
    assert server.messages == []
    client.link.abort()
    server.link.abort()
    await meeting.aclose()


async def test_a_reader_that_pauses_and_resumes_at_every_message_keeps_the_order(join: Join) -> None:
    server, client = await join()

    def stutter(message: bytes) -> None:
        client.link.pause_reading()
        client.link.resume_reading()

    client.on_message = stutter
    sent = [b"%d" % n for n in range(500)]
    for message in sent:
        server.link.send(message)
    assert await client.received(500) == sent


async def test_a_writer_that_heeds_the_signals_never_queues_more_than_the_mark_and_a_message(
    join: Join,
) -> None:
    limits = TransportLimits(write_high_water_bytes=256 * 1024)
    server, client = await join(limits)
    client.link.pause_reading()
    message = b"x" * 65536
    sent = most = 0
    while not server.events:
        server.link.send(message)
        sent += 1
        most = max(most, server.link.buffered_bytes)
        await asyncio.sleep(0)
    assert server.events == ["paused"]
    assert most <= limits.write_high_water_bytes + len(message) + 16
    client.link.resume_reading()
    await server.until(lambda: server.events == ["paused", "resumed"])
    assert server.link.buffered_bytes <= limits.write_low_water_bytes
    assert await client.received(sent) == [message] * sent


async def test_closing_delivers_what_is_queued_and_ends_cleanly_on_both_sides(join: Join) -> None:
    server, client = await join()
    sent = [b"x" * 65536] * 100
    for message in sent:
        server.link.send(message)
    server.link.close()
    server.link.send(b"too late")
    server.link.close()
    assert await client.ended() is None
    assert await server.ended() is None
    assert client.messages == sent


async def test_closing_ends_cleanly_although_the_peer_keeps_sending(join: Join, medium: str) -> None:
    server, client = await join(TransportLimits(close_timeout_s=3600))
    server.link.pause_reading()
    for _ in range(20):
        client.link.send(b"x" * 65536)
    server.link.send(b"bye")
    server.link.close()
    assert await client.received(1) == [b"bye"]
    assert await server.ended() is None
    assert server.messages == []
    await client.ended()
    # A closed pipe tells its writer so; every other medium is read to its end.
    assert client.error is None or medium == "pipes"


async def test_a_peer_that_reads_nothing_is_dropped_after_the_close_timeout(join: Join) -> None:
    server, client = await join(TransportLimits(close_timeout_s=0.05))
    client.link.pause_reading()
    while server.link.buffered_bytes < 4 * MIB:
        server.link.send(b"x" * MIB)
    server.link.close()
    assert await server.ended() is None


async def test_aborting_tells_the_owner_nothing_bad_and_the_peer_that_it_was_dropped(
    join: Join,
) -> None:
    server, client = await join()
    client.link.pause_reading()
    while server.link.buffered_bytes < 2 * MIB:
        server.link.send(b"x" * MIB)
    server.link.abort()
    server.link.send(b"ignored")
    assert await server.ended() is None
    client.link.resume_reading()
    # A stream that ends exactly between two lines looks as if it was closed; here it is cut inside one.
    assert isinstance(await client.ended(), ConnectionLost)


async def test_a_link_that_has_ended_ignores_everything(join: Join) -> None:
    server, client = await join()
    server.link.close()
    for recorder in (server, client):
        await recorder.ended()
        recorder.link.send(b"ignored")
        recorder.link.pause_reading()
        recorder.link.resume_reading()
        recorder.link.close()
        recorder.link.abort()
        assert recorder.link.buffered_bytes == 0


async def test_both_sides_may_close_at_once(join: Join) -> None:
    server, client = await join()
    server.link.close()
    client.link.close()
    assert await server.ended() is None
    assert await client.ended() is None


async def test_a_receiver_that_raises_loses_its_link_and_the_log_tells_why(
    join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    server, client = await join()
    fault = RuntimeError("receiver is broken")

    def fail(message: bytes) -> None:
        raise fault

    server.on_message = fail
    with caplog.at_level(logging.ERROR):
        client.link.send(b"one")
        client.link.send(b"two")
        assert await server.ended() is fault
    assert server.messages == [b"one"]
    assert any(record.exc_info and record.exc_info[1] is fault for record in caplog.records)
    await client.ended()


@pytest.mark.parametrize("medium", MEDIA_WITH_OPENER)
async def test_whoever_opens_a_link_gets_the_exception_of_the_receiver_factory(
    medium: str, tmp_path: Path
) -> None:
    class Refusing(Acceptor):
        def __call__(self, link: Link) -> Recorder:
            raise RuntimeError("no receiver today")

    meeting = Meeting(Refusing(), tmp_path)
    with pytest.raises(RuntimeError, match="no receiver today"):
        await meeting.join(medium)
    await meeting.aclose()


@pytest.mark.parametrize("medium", MEDIA_WITH_LISTENER)
async def test_whoever_accepts_a_link_without_a_receiver_drops_it_and_the_log_tells_why(
    join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(link: Link) -> Recorder:
        raise RuntimeError("no receiver today")

    _, client = await join(accept=refuse)
    await client.ended()
    assert "no receiver today" in caplog.text


async def test_a_message_over_the_limit_drops_the_link(join: Join) -> None:
    server, client = await join(TransportLimits(max_message_bytes=1000))
    client.link.send(b"x" * 1000)
    client.link.send(b"x" * 1001)
    client.link.send(b"after")
    error = await server.ended()
    assert isinstance(error, MessageTooLarge)
    assert error.limit_bytes == 1000
    assert b"after" not in server.messages
    await client.ended()


async def test_the_peer_is_named(join: Join, medium: str) -> None:
    server, client = await join()
    for recorder in (server, client):
        assert recorder.link.peer.startswith(
            {"websocket": "ws 127.0.0.1:", "socketpair": "stdio"}.get(medium, medium)
        )

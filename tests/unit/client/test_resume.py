"""A connection that is lost and comes back, against a server that a test scripts."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from paddock.client.connection import PAGE_BYTES, Connection
from paddock.client.event_sequence import Gap
from paddock.client.inbox import Output
from paddock.client.opening import open_box
from paddock.client.process import ProcessState
from paddock.client.reconnect import ReconnectPolicy
from paddock.errors import (
    ConnectionLost,
    HandshakeRefused,
    InvalidRequest,
    OutputGap,
    ProcessLost,
    SessionAttached,
    UnknownSession,
)
from paddock.model.stream import Stream
from paddock.transport.link import Accept, Link
from tests.unit.client.scripted_server import (
    AT_ONCE,
    EVERYTHING,
    PATIENCE_S,
    ScriptedServer,
    reading,
    scripted,
)

BRIEF = ReconnectPolicy(max_time_s=0.3, min_delay_s=0.001, max_delay_s=0.001)
NO_NEW_SESSION = ReconnectPolicy(max_time_s=PATIENCE_S, new_session=False)
OWN_PAGES = (*EVERYTHING, "outputGaps")


def out(data: bytes) -> Output:
    return Output(Stream.STDOUT, data)


async def settle() -> None:
    """Let everything happen that is about to."""
    for _ in range(50):
        await asyncio.sleep(0)


# --- output --------------------------------------------------------------


async def test_what_was_missed_is_asked_for_and_comes_in_order() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        server.output("p", 1, b"one")
        assert await anext(aiter(process)) == out(b"one")
        await server.cut()
        assert (await server.greet())["resumeSessionId"] == "s"
        request = await server.next("process/read")
        assert request["params"]["afterSeq"] == 1
        assert request["params"]["maxBytes"] is None
        server.output("p", 4, b"four")
        server.answer(request, reading((2, b"two"), (3, b"three"), (4, b"four"), next_seq=5))
        server.output("p", 5, b"five")
        server.exited("p", 6, 9)
        server.closed("p", 7)
        assert await process.communicate() == (b"twothreefourfive", b"")
        assert (await process.wait(), process.state) == (9, ProcessState.CLOSED)
        assert box.session_id == "s"


async def test_an_end_that_was_missed_is_learned_from_the_answer() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        waiting = asyncio.create_task(process.wait())
        await server.cut()
        await server.greet()
        request = await server.next("process/read")
        server.answer(request, reading((1, b"last"), next_seq=4, exit_code=3, closed=True))
        assert await waiting == 3
        assert [output async for output in process] == [out(b"last")]
        assert process.is_closed


async def test_an_exit_without_the_end_of_the_output_is_told_and_the_rest_follows() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet()
        server.answer(await server.next("process/read"), reading(next_seq=2, exit_code=3))
        assert await process.wait() == 3
        assert process.state is ProcessState.EXITED
        server.output("p", 2, b"late")
        server.closed("p", 3)
        assert [output async for output in process] == [out(b"late")]


async def test_a_gap_is_raised_once_and_reading_goes_on_behind_it() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet()
        gaps = [{"fromSeq": 2, "toSeq": 5, "bytes": 400}]
        answer = reading((1, b"head"), (6, b"tail"), next_seq=9, exit_code=0, closed=True, gaps=gaps)
        server.answer(await server.next("process/read"), answer)
        reader = aiter(process)
        assert await anext(reader) == out(b"head")
        with pytest.raises(OutputGap, match="400 bytes of output") as gap:
            await anext(reader)
        assert (gap.value.from_seq, gap.value.to_seq, gap.value.size_bytes) == (2, 5, 400)
        assert [output async for output in process] == [out(b"tail")]


async def test_a_gap_may_be_yielded_instead() -> None:
    async with scripted((), policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet()
        server.answer(
            await server.next("process/read"), reading((6, b"tail"), next_seq=9, exit_code=0, closed=True)
        )
        items = [item async for item in process.output(on_gap="yield")]
        assert items == [Gap(1, 5, None), out(b"tail")]
        assert process.read_seq == 6


async def test_missed_output_comes_in_pages_when_it_did_not_get_through_at_once() -> None:
    async with scripted(OWN_PAGES, policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet()
        await server.next("process/read")
        await server.cut()
        await server.greet()
        for after_seq, answer in (
            (0, reading((1, b"a"), (2, b"b"), next_seq=3, exit_code=0, closed=True, gaps=[])),
            (2, reading((3, b"c"), next_seq=4, exit_code=0, closed=True, gaps=[])),
            (3, reading(next_seq=6, exit_code=0, closed=True, gaps=[])),
        ):
            request = await server.next("process/read")
            assert (request["params"]["afterSeq"], request["params"]["maxBytes"]) == (after_seq, PAGE_BYTES)
            server.answer(request, answer)
        assert [output.data async for output in process] == [b"a", b"b", b"c"]
        assert not server.has_unread


# --- requests ------------------------------------------------------------


async def test_calls_made_while_away_wait_and_go_out_in_order() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box, stdin=True)
        server.is_down = True
        await server.cut()
        await settle()
        assert not box.is_connected
        calls = [
            asyncio.create_task(process.write(b"x")),
            asyncio.create_task(process.signal("TERM")),
            asyncio.create_task(box.processes()),
        ]
        await settle()
        server.is_down = False
        await server.greet()
        server.answer(await server.next("process/read"), reading(next_seq=1))
        server.answer(await server.next("process/write"), {"status": "accepted"})
        server.answer(await server.next("process/signal"), {})
        server.answer(await server.next("process/list"), {"processes": []})
        await asyncio.gather(*calls)
        assert box.is_connected


async def test_requests_under_way_are_repeated_as_they_were_and_a_signal_is_not() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box, stdin=True)
        writing = asyncio.create_task(process.write(b"x" * 100_000))
        first = [await server.next("process/write") for _ in range(2)]
        signalling = asyncio.create_task(process.signal("TERM"))
        await server.next("process/signal")
        listing = asyncio.create_task(box.processes())
        await server.next("process/list")
        await server.cut()
        with pytest.raises(ConnectionLost):
            await signalling
        await server.greet()
        await server.next("process/read")
        again = [await server.next("process/write") for _ in range(2)]
        assert again == first
        for request in again:
            server.answer(request, {"status": "accepted"})
        server.answer(await server.next("process/list"), {"processes": []})
        await writing
        assert await listing == []


async def test_a_start_under_way_is_repeated_with_its_key_and_then_read() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        starting = asyncio.create_task(box.start(["program"]))
        first = await server.next("process/start")
        assert first["params"]["idempotencyKey"]
        await server.cut()
        await server.greet()
        again = await server.next("process/start")
        assert again == first
        process_id = again["params"]["processId"]
        server.output(process_id, 2, b"two")
        server.started(again)
        process = await starting
        server.answer(
            await server.next("process/read"), reading((1, b"one"), (2, b"two"), next_seq=3, gaps=[])
        )
        reader = aiter(process)
        assert [await anext(reader), await anext(reader)] == [out(b"one"), out(b"two")]


async def test_a_start_on_a_server_without_keys_is_repeated_under_its_own_id() -> None:
    async with scripted((), policy=AT_ONCE) as (box, server):
        starting = asyncio.create_task(box.start(["program"]))
        await server.next("process/start")
        await server.cut()
        await server.greet()
        again = await server.next("process/start")
        server.refuse(again, -32600, "process already exists")
        # It is there, so the first one has started it.
        probe = await server.next("process/read")
        server.answer(probe, reading(next_seq=1))
        assert (await starting).process_id == again["params"]["processId"]


async def test_a_repeated_start_that_left_nothing_usable_behind_is_a_lost_connection() -> None:
    async with scripted((), policy=AT_ONCE) as (box, server):
        starting = asyncio.create_task(box.start(["program"]))
        await server.next("process/start")
        await server.cut()
        await server.greet()
        server.refuse(await server.next("process/start"), -32600, "process p already exists")
        server.refuse(await server.next("process/read"), -32600, "process id p is starting")
        with pytest.raises(ConnectionLost, match="already exists; process id p is starting"):
            await starting


async def test_a_start_under_an_id_of_the_callers_is_not_repeated_without_a_key() -> None:
    async with scripted((), policy=AT_ONCE) as (box, server):
        starting = asyncio.create_task(box.start(["program"], process_id="mine"))
        await server.next("process/start")
        await server.cut()
        with pytest.raises(ConnectionLost):
            await starting
        await server.greet()
        await settle()
        assert not server.has_unread


async def test_a_kill_that_nobody_waits_for_is_sent_until_it_is_answered() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        process.kill_now()
        await server.next("process/terminate")
        await server.cut()
        await server.greet()
        await server.next("process/read")
        server.answer(await server.next("process/terminate"), {"running": True})
        await server.cut()
        await server.greet()
        await server.next("process/read")
        await settle()
        assert not server.has_unread


# --- the way back --------------------------------------------------------


async def test_a_session_that_is_still_attached_is_asked_for_again_on_the_same_connection() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        for _ in range(3):
            greeting = await server.next("initialize")
            server.refuse(greeting, -32010, "session s is already attached to another connection")
        assert not server.is_link_closed.is_set()
        assert (await server.greet())["resumeSessionId"] == "s"
        server.answer(await server.next("process/read"), reading(next_seq=2, exit_code=0))
        assert await process.wait() == 0


async def test_a_handshake_that_is_cut_off_is_tried_again() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        listing = asyncio.create_task(box.processes())
        await server.next("process/list")
        await server.cut()
        for _ in range(3):
            await server.next("initialize")
            await server.cut()
        await server.greet()
        server.answer(await server.next("process/list"), {"processes": []})
        assert await listing == []


async def test_giving_up_loses_everything_and_says_why() -> None:
    async with scripted(policy=BRIEF) as (box, server):
        process = await server.start(box)
        listing = asyncio.create_task(box.processes())
        await server.next("process/list")
        server.is_down = True
        await server.cut()
        with pytest.raises(ConnectionLost, match=r"connecting again failed: .*connection refused"):
            await listing
        with pytest.raises(ProcessLost, match="connection refused"):
            await process.wait()
        assert (process.exit_code, process.state) == (None, ProcessState.LOST)
        with pytest.raises(ConnectionLost):
            await box.processes()


async def test_a_door_that_will_not_open_is_not_tried_again() -> None:
    server = ScriptedServer()
    dials = 0

    async def dial(accept: Accept) -> Link:
        nonlocal dials
        dials += 1
        if dials > 1:
            raise HandshakeRefused("ws://there", 401, "expired websocket jwt")
        return await server.dial(accept)

    opening = asyncio.create_task(open_box(Connection(), dial, client_name="test", policy=AT_ONCE))
    await server.greet()
    box = await opening
    listing = asyncio.create_task(box.processes())
    await server.next("process/list")
    await server.cut()
    with pytest.raises(ConnectionLost, match="HTTP 401 expired websocket jwt"):
        await listing
    assert dials == 2
    await box.aclose()


async def test_what_a_callers_function_raises_is_heard_of() -> None:
    server = ScriptedServer()
    is_first = True

    async def dial(accept: Accept) -> Link:
        nonlocal is_first
        if not is_first:
            raise KeyError("no token left")
        is_first = False
        return await server.dial(accept)

    opening = asyncio.create_task(open_box(Connection(), dial, client_name="test", policy=AT_ONCE))
    await server.greet()
    box = await opening
    process = await server.start(box)
    await server.cut()
    with pytest.raises(ProcessLost, match="no token left"):
        await process.wait()
    await box.aclose()


async def test_a_server_that_breaks_the_protocol_is_not_tried_again() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        server.send({"nonsense": True})
        with pytest.raises(ProcessLost, match="dropped"):
            await process.wait()
        assert not server.has_unread


# --- a session that is gone ----------------------------------------------


async def test_processes_of_a_session_that_is_gone_are_lost_and_a_new_one_serves_later_calls() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box, stdin=True)
        exited = await server.start(box, "exited")
        server.exited("exited", 1, 4)
        await exited.wait()
        waiting = asyncio.create_task(process.wait())
        writing = asyncio.create_task(process.write(b"x"))
        await server.next("process/write")
        listing = asyncio.create_task(box.processes())
        await server.next("process/list")
        await server.cut()
        server.refuse(await server.next("initialize"), -32600, "unknown session id 's'")
        for pending in (waiting, writing):
            with pytest.raises(ProcessLost, match="its session is gone: unknown session id 's'"):
                await pending
        with pytest.raises(ConnectionLost, match="its session is gone"):
            await listing
        assert (process.exit_code, process.state) == (None, ProcessState.LOST)
        # What was known before stays known.
        assert (await exited.wait(), exited.state) == (4, ProcessState.EXITED)
        assert (await server.greet("t"))["resumeSessionId"] is None
        again = await server.start(box, "p")
        assert box.session_id == "t"
        with pytest.raises(ProcessLost):
            await process.write(b"not for the new one")
        process.kill_now()
        await settle()
        assert not server.has_unread
        assert again.state is ProcessState.RUNNING


async def test_another_session_than_the_one_asked_for_is_a_loss_too() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet("other")
        with pytest.raises(ProcessLost, match="another session"):
            await process.wait()
        assert box.session_id == "other"


async def test_a_start_that_was_not_sent_yet_happens_in_the_new_session() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        server.is_down = True
        await server.cut()
        starting = asyncio.create_task(box.start(["program"], process_id="p"))
        await settle()
        server.is_down = False
        server.refuse(await server.next("initialize"), -32600, "unknown session id 's'")
        await server.greet("t")
        server.started(await server.next("process/start"))
        process = await starting
        server.exited("p", 1)
        assert await process.wait() == 0


async def test_without_a_new_session_everything_fails() -> None:
    async with scripted(policy=NO_NEW_SESSION) as (box, server):
        process = await server.start(box)
        await server.cut()
        server.refuse(await server.next("initialize"), -32600, "unknown session id 's'")
        with pytest.raises(ProcessLost, match="unknown session id 's'"):
            await process.wait()
        with pytest.raises(ConnectionLost, match="unknown session id 's'"):
            await box.processes()


async def test_a_process_that_the_server_has_forgotten_is_lost() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet()
        server.refuse(await server.next("process/read"), -32600, "unknown process id 'p'")
        with pytest.raises(ProcessLost, match="unknown process id 'p'"):
            await process.wait()
        assert process.state is ProcessState.LOST


async def test_a_process_that_the_server_lost_meanwhile_is_lost_here_too() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        await server.cut()
        await server.greet()
        answer = reading((1, b"before"), next_seq=2, closed=True, failure="the spawner ended")
        server.answer(await server.next("process/read"), answer)
        with pytest.raises(ProcessLost, match="the spawner ended"):
            await process.wait()
        assert await anext(aiter(process)) == out(b"before")


# --- sessions of others --------------------------------------------------


async def resume(server: ScriptedServer, answer: Any) -> asyncio.Task[Any]:
    opening = asyncio.create_task(open_box(Connection(), server.dial, client_name="test", resume="left"))
    greeting = await server.next("initialize")
    assert greeting["params"]["resumeSessionId"] == "left"
    answer(greeting)
    return opening


async def test_a_session_that_is_unknown_or_in_use_can_not_be_resumed() -> None:
    server = ScriptedServer()
    opening = await resume(server, lambda greeting: server.refuse(greeting, -32600, "unknown session id"))
    with pytest.raises(UnknownSession, match="'left'"):
        await opening
    opening = await resume(server, lambda greeting: server.refuse(greeting, -32010, "already attached"))
    with pytest.raises(SessionAttached):
        await opening


async def test_a_process_that_runs_already_can_be_attached_to() -> None:
    async with scripted() as (box, server):
        attaching = asyncio.create_task(box.attach("p", after_seq=2))
        request = await server.next("process/read")
        assert request["params"]["afterSeq"] == 2
        server.output("p", 4, b"four")
        server.answer(request, reading((3, b"three"), (4, b"four"), next_seq=5))
        process = await attaching
        assert await box.attach("p") is process
        reader = aiter(process)
        assert [await anext(reader), await anext(reader)] == [out(b"three"), out(b"four")]
        assert process.read_seq == 4
        writing = asyncio.create_task(process.write(b"x"))
        request = await server.next("process/write")
        assert base64.b64decode(request["params"]["chunk"]) == b"x"
        server.answer(request, {"status": "accepted"})
        await writing


async def test_a_process_that_is_not_there_can_not_be_attached_to() -> None:
    async with scripted() as (box, server):
        attaching = asyncio.create_task(box.attach("p"))
        server.refuse(await server.next("process/read"), -32600, "unknown process id 'p'")
        with pytest.raises(InvalidRequest, match="unknown process id"):
            await attaching
        await server.start(box, "p")


async def test_an_attachment_survives_a_cut() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        attaching = asyncio.create_task(box.attach("p"))
        await server.next("process/read")
        await server.cut()
        await server.greet()
        server.answer(await server.next("process/read"), reading((1, b"one"), next_seq=2))
        assert await anext(aiter(await attaching)) == out(b"one")


async def test_closing_leaves_what_was_attached_and_detaching_leaves_everything() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        attaching = asyncio.create_task(box.attach("p"))
        server.answer(await server.next("process/read"), reading(next_seq=1))
        attached = await attaching
        await box.aclose()
        assert not server.has_unread
        assert attached.state is ProcessState.LOST
    async with scripted(policy=AT_ONCE) as (box, server):
        await server.start(box)
        await box.detach()
        assert not server.has_unread


async def test_closing_while_away_does_not_wait_for_the_way_back() -> None:
    async with scripted(policy=AT_ONCE) as (box, server):
        process = await server.start(box)
        server.is_down = True
        await server.cut()
        async with asyncio.timeout(PATIENCE_S / 2):
            await box.detach()
        with pytest.raises(ProcessLost, match="closed on this side"):
            await process.wait()

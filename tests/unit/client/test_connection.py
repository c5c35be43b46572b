"""Requests, answers and the flow of output, against a server that a test scripts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.client.flow_control import FlowLimits
from paddock.client.process import ProcessState
from paddock.errors import (
    ConnectionLost,
    InvalidRequest,
    MessageTooLarge,
    OutputOverrun,
    ProcessExists,
    ProcessLost,
    RequestTimeout,
)
from tests.unit.client.scripted_server import BRIEF_S, ScriptedServer, scripted

SMALL = FlowLimits(high_water_bytes=1000, limit_bytes=8000)
CHUNK = b"x" * 500


async def settle() -> None:
    """Let everything happen that is about to: each hop of a message is one turn of the loop."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_each_caller_gets_its_own_answer_whatever_their_order() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        calls = [asyncio.create_task(process.terminate()) for _ in range(2)]
        requests = [await server.next("process/terminate") for _ in calls]
        server.answer(requests[1], {"running": False})
        server.answer(requests[0], {"running": True})
        assert [await call for call in calls] == [True, False]


async def test_what_the_server_refuses_is_raised_where_it_was_asked() -> None:
    async with scripted() as (box, server):
        call = asyncio.create_task(box.processes())
        server.refuse(await server.next("process/list"), -32600, "not now")
        with pytest.raises(InvalidRequest, match="not now"):
            await call


async def test_an_answer_that_does_not_come_in_time_is_given_up_and_ignored_when_it_comes() -> None:
    async with scripted(request_timeout_s=BRIEF_S) as (box, server):
        with pytest.raises(RequestTimeout, match=r"did not answer within 0\.3 s"):
            await box.processes()
        late = await server.next("process/list")
        server.answer(late, {"processes": []})
        call = asyncio.create_task(box.processes())
        server.answer(await server.next("process/list"), {"processes": []})
        assert await call == []


async def test_a_cancelled_caller_gives_up_without_harm_to_others() -> None:
    async with scripted() as (box, server):
        call = asyncio.create_task(box.processes())
        request = await server.next("process/list")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        server.answer(request, {"processes": []})
        other = asyncio.create_task(box.processes())
        server.answer(await server.next("process/list"), {"processes": []})
        assert await other == []


async def test_a_lost_connection_fails_everything_and_invents_nothing() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        listing = asyncio.create_task(box.processes())
        waiting = asyncio.create_task(process.wait())
        reading = asyncio.create_task(anext(aiter(process)))
        await server.next("process/list")
        server.link.abort()
        with pytest.raises(ConnectionLost):
            await listing
        for pending in (waiting, reading):
            with pytest.raises(ProcessLost):
                await pending
        assert process.exit_code is None
        assert process.state is ProcessState.LOST
        for attempt in (box.processes(), box.start(["ls"])):
            with pytest.raises(ConnectionLost):
                await attempt
        for attempt in (process.wait(), process.write(b"x"), process.terminate()):
            with pytest.raises(ProcessLost):
                await attempt


async def test_a_server_that_says_goodbye_is_a_lost_connection_too() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        server.output("p", 1, b"last words")
        server.link.close()
        reader = aiter(process)
        assert (await anext(reader)).data == b"last words"
        with pytest.raises(ProcessLost, match="ended the connection"):
            await anext(reader)


@pytest.mark.parametrize(
    "nonsense",
    [{"nonsense": True}, {"id": -1, "error": {"code": -32600, "message": "can't read"}}],
)
async def test_a_server_that_breaks_the_protocol_is_dropped(nonsense: dict[str, Any]) -> None:
    async with scripted() as (box, server):
        call = asyncio.create_task(box.processes())
        await server.next("process/list")
        server.send(nonsense)
        with pytest.raises(ConnectionLost, match="the server"):
            await call
        await server.is_link_closed.wait()


async def test_a_request_over_the_servers_limit_is_refused_here_and_costs_nothing() -> None:
    async with scripted() as (box, server):
        with pytest.raises(MessageTooLarge):
            await box.start(["echo", "x" * (17 << 20)], process_id="p")
        assert not server.has_unread
        assert (await server.start(box, "p")).process_id == "p"


async def test_text_that_json_can_not_carry_is_the_callers_mistake() -> None:
    async with scripted() as (box, server):
        with pytest.raises(ValueError, match="not valid UTF-8"):
            await box.start(["echo", "\udcff"])
        assert not server.has_unread


async def test_a_process_id_is_not_used_twice_at_once() -> None:
    async with scripted() as (box, server):
        held = await server.start(box, "p")
        with pytest.raises(ProcessExists):
            await box.start(["ls"], process_id="p")
        server.exited("p", 1)
        server.closed("p", 2)
        await held.communicate()
        await server.start(box, "p")


async def test_what_became_unknown_on_the_server_is_an_error_and_not_a_status() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        server.output("p", 1, b"before")
        server.send({"method": "process/failed", "params": {"processId": "p", "message": "spawner lost"}})
        with pytest.raises(ProcessLost, match="spawner lost"):
            await process.wait()
        assert process.exit_code is None
        assert process.state is ProcessState.LOST


# --- flow ----------------------------------------------------------------


def flood(server: ScriptedServer, process_id: str, first_seq: int, count: int) -> None:
    for seq in range(first_seq, first_seq + count):
        server.output(process_id, seq, CHUNK)


async def test_a_slow_reader_stops_the_connection_and_then_gets_everything() -> None:
    async with scripted(limits=SMALL) as (box, server):
        process = await server.start(box)
        reader = aiter(process)
        flood(server, "p", 1, 40)
        await settle()
        held_back = server.link.buffered_bytes
        assert held_back > 30 * len(CHUNK)
        for _ in range(40):
            assert (await anext(reader)).data == CHUNK
        assert server.link.buffered_bytes == 0


async def test_a_reader_that_asks_the_server_something_in_between_gets_its_answer() -> None:
    async with scripted(limits=SMALL) as (box, server):
        process = await server.start(box)
        reader = aiter(process)
        flood(server, "p", 1, 4)
        await settle()
        call = asyncio.create_task(process.write(b"go on"))
        request = await server.next("process/write")
        flood(server, "p", 5, 4)
        server.answer(request, {"status": "accepted"})
        await call
        for _ in range(8):
            assert (await anext(reader)).data == CHUNK


async def test_waiting_alone_works_whatever_the_process_writes() -> None:
    async with scripted(limits=SMALL) as (box, server):
        process = await server.start(box)
        waiting = asyncio.create_task(process.wait())
        flood(server, "p", 1, 100)
        server.exited("p", 101, 5)
        server.closed("p", 102)
        assert await waiting == 5
        with pytest.raises(OutputOverrun):
            await process.communicate()


async def test_what_was_waited_for_can_be_read_afterwards_if_it_is_little() -> None:
    async with scripted(limits=SMALL) as (box, server):
        process = await server.start(box)
        waiting = asyncio.create_task(process.wait())
        flood(server, "p", 1, 10)
        server.exited("p", 11, 0)
        server.closed("p", 12)
        await waiting
        assert await process.communicate() == (CHUNK * 10, b"")


async def test_waiting_beside_a_slow_reader_drops_nothing() -> None:
    async with scripted(limits=SMALL) as (box, server):
        process = await server.start(box)
        reader = aiter(process)
        waiting = asyncio.create_task(process.wait())
        flood(server, "p", 1, 100)
        server.exited("p", 101, 0)
        server.closed("p", 102)
        await settle()
        assert not waiting.done()
        count = 0
        async for output in reader:
            assert output.data == CHUNK
            count += 1
        assert count == 100
        assert await waiting == 0


async def test_a_wait_becomes_urgent_when_the_reader_leaves() -> None:
    async with scripted(limits=SMALL) as (box, server):
        process = await server.start(box)
        reader = aiter(process)
        waiting = asyncio.create_task(process.wait())
        flood(server, "p", 1, 100)
        server.exited("p", 101, 0)
        await settle()
        assert not waiting.done()
        del reader
        assert await waiting == 0


async def test_a_process_nobody_reads_does_not_hold_up_the_others() -> None:
    async with scripted(limits=SMALL) as (box, server):
        unread = await server.start(box, "unread")
        read = await server.start(box, "read")
        reader = aiter(read)
        flood(server, "unread", 1, 100)
        server.output("read", 1, b"through")
        assert (await anext(reader)).data == b"through"
        with pytest.raises(OutputOverrun):
            await anext(aiter(unread))


async def test_output_of_a_handle_that_was_let_go_of_takes_no_room() -> None:
    async with scripted(limits=SMALL) as (box, server):
        forgotten = await server.start(box, "forgotten")
        kept = await server.start(box, "kept")
        flood(server, "forgotten", 1, 2)
        await settle()
        del forgotten
        flood(server, "forgotten", 3, 100)
        flood(server, "kept", 1, 2)
        await settle()
        assert server.link.buffered_bytes == 0
        assert (await anext(aiter(kept))).data == CHUNK

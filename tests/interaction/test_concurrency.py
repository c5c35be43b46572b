"""Requests of one connection: concurrent, with a control lane, in order where it matters."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from paddock.process.input_stream import QUEUE_LIMIT_BYTES
from paddock.process.output_log import OutputLog
from paddock.protocol.long_list import LongList
from paddock.rpc.serving import ServingConnection
from paddock.server.answer_turns import ANSWERS_PER_TURN
from paddock.server.connection import TEXT_BYTES_PER_TURN, WAITING_TEXT_BYTES
from paddock.server.handlers import control, process
from tests.turn_count import counted
from tests.wire import WireError, attach, encode, served, session, start_params


async def test_control_requests_overtake_as_many_long_polls_as_there_may_be() -> None:
    async with session(concurrent_requests=2) as client:
        await client.start("p", "/bin/sleep", "1000")
        polls = [client.request("process/wait", {"processId": "p"}) for _ in range(5)]

        assert await client.call("environment/status") == {"status": "ready"}
        assert await client.call("process/signal", {"processId": "p", "signal": "CONT"}) == {}
        assert await client.call("process/terminate", {"processId": "p"}) == {"running": True}
        for poll in polls:
            assert (await client.answer(poll))["exitCode"] == 137


async def test_a_start_does_not_wait_behind_long_polls() -> None:
    async with session(concurrent_requests=2) as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        waits = [client.request("process/wait", {"processId": "p"}) for _ in range(3)]
        reads = [client.request("process/read", {"processId": "p", "waitMs": 60_000}) for _ in range(3)]

        assert (await client.start("q", "/bin/true"))["processId"] == "q"

        await client.call("process/write", {"processId": "p", "chunk": encode(b"x"), "writeId": "1"})
        for read in reads:
            assert (await client.answer(read))["chunks"][0]["chunk"] == encode(b"x")
        await client.call("process/closeStdin", {"processId": "p"})
        for wait in waits:
            assert (await client.answer(wait))["exitCode"] == 0


async def test_more_long_polls_than_may_be_parked_are_refused_and_the_others_answered() -> None:
    async with session(concurrent_requests=2, max_parked_requests=2) as client:
        await client.start("p", "/bin/sleep", "1000")
        waits = [client.request("process/wait", {"processId": "p"}) for _ in range(3)]

        with pytest.raises(WireError, match=r"2 requests .* wait for one of their answers first") as refusal:
            await client.answer(waits.pop())

        assert refusal.value.code == -32600
        await client.call("process/terminate", {"processId": "p"})
        for wait in waits:
            assert (await client.answer(wait))["exitCode"] == 137


async def test_one_at_a_time_is_strictly_serial() -> None:
    async with session(concurrent_requests=1) as client:
        await client.start("p", "/bin/sleep", "1000")
        poll = client.request("process/wait", {"processId": "p", "timeoutMs": 20})
        status = client.request("environment/status")

        assert [(await client.next())["id"] for _ in range(2)] == [poll, status]


async def test_requests_that_follow_a_start_find_the_process() -> None:
    async with session() as client:
        requests = [
            client.request("process/start", start_params("p", "/bin/cat", pipeStdin=True)),
            client.request("process/write", {"processId": "p", "chunk": encode(b"1"), "writeId": "1"}),
            client.request("process/write", {"processId": "p", "chunk": encode(b"2"), "writeId": "2"}),
            client.request("process/closeStdin", {"processId": "p"}),
            client.request("process/wait", {"processId": "p"}),
            client.request("process/snapshot", {"processId": "p"}),
        ]
        answers = [await client.answer(request) for request in requests]

        assert answers[1:3] == [{"status": "accepted"}] * 2
        assert answers[4]["exitCode"] == 0
        assert (await client.finish("p")).streams["stdout"] == b"12"


async def test_a_terminate_that_follows_a_start_ends_it() -> None:
    async with session() as client:
        start = client.request("process/start", start_params("p", "/bin/sleep", "1000"))
        end = client.request("process/terminate", {"processId": "p"})

        assert (await client.answer(start))["processId"] == "p"
        assert await client.answer(end) == {"running": True}
        assert (await client.finish("p")).exit_code == 137


async def test_requests_that_follow_a_failing_start_find_nothing() -> None:
    async with session() as client:
        client.request("process/start", start_params("p", "/no/such", pipeStdin=True))
        write = client.request("process/write", {"processId": "p", "chunk": "", "writeId": "1"})
        end = client.request("process/terminate", {"processId": "p"})

        assert await client.answer(write) == {"status": "unknownProcess"}
        assert await client.answer(end) == {"running": False}


async def test_more_requests_than_may_wait_are_all_answered() -> None:
    async with session(concurrent_requests=1, queued_requests=4) as client:
        await client.start("p", "/bin/sleep", "1000")
        polls = [client.request("process/wait", {"processId": "p", "timeoutMs": 1}) for _ in range(100)]
        for poll in polls:
            assert (await client.answer(poll))["exited"] is False


async def test_a_client_is_read_on_when_all_that_waited_for_their_turn_were_parked() -> None:
    async with session(concurrent_requests=2, queued_requests=4) as client:
        for process in ("busy", "other"):
            await client.start(process, "/bin/sleep", "1000", pipeStdin=True)
        for process in ("busy", "other"):
            # More than the queue and the widest pipe hold, so that the answer waits for the process.
            chunk = encode(bytes(3 * QUEUE_LIMIT_BYTES))
            client.request("process/write", {"processId": process, "chunk": chunk, "writeId": "1"})
        waits = [client.request("process/wait", {"processId": "other"}) for _ in range(3)]
        end = client.request("process/terminate", {"processId": "busy"})
        waits.append(client.request("process/wait", {"processId": "other"}))

        assert await client.answer(end) == {"running": True}
        assert await client.call("process/terminate", {"processId": "other"}) == {"running": True}
        for wait in waits:
            assert (await client.answer(wait))["exitCode"] == 137


async def test_a_terminate_does_not_overtake_a_start_that_waits_for_its_turn() -> None:
    async with session(concurrent_requests=2) as client:
        await client.start("busy", "/bin/sleep", "1000", pipeStdin=True)
        for number in range(2):
            write = {"processId": "busy", "chunk": encode(bytes(QUEUE_LIMIT_BYTES)), "writeId": str(number)}
            client.request("process/write", write)
        start = client.request("process/start", start_params("p", "/bin/sleep", "1000"))
        end = client.request("process/terminate", {"processId": "p"})
        await client.call("process/terminate", {"processId": "busy"})

        assert (await client.answer(start))["processId"] == "p"
        assert await client.answer(end) == {"running": True}


@pytest.mark.parametrize("method", ["process/read", "process/wait"])
async def test_many_long_polls_are_answered_by_and_by(method: str) -> None:
    count = 20 * ANSWERS_PER_TURN
    engine = {"process/read": "_read_now", "process/wait": "_wait_result"}[method]
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        params = {"processId": "p"} | ({"waitMs": 60_000} if method == "process/read" else {})
        polls = [client.request(method, params) for _ in range(count)]
        await client.call("environment/status")

        with counted(process, engine) as answers:
            await client.call("process/write", {"processId": "p", "chunk": encode(b"x"), "writeId": "1"})
            await client.call("process/closeStdin", {"processId": "p"})
            for poll in polls:
                await client.answer(poll)

        assert answers.on_loop == count
        # Those whose turn began in the turn of the loop before, and those that needed not wait for one.
        assert answers.most <= 2 * ANSWERS_PER_TURN


@pytest.mark.parametrize("is_refused", [False, True])
async def test_long_messages_are_read_a_few_in_a_turn(is_refused: bool) -> None:
    paths = [["no such key"]] * (TEXT_BYTES_PER_TURN // 20)
    params = {"cwd": 1 if is_refused else "/", "configPaths": paths, "requirementsPaths": []}
    async with session() as client:
        await client.call("environment/status")
        with counted(ServingConnection, "receive") as received:
            asked = [client.request("environmentConfig/read", params) for _ in range(20)]
            for request in asked:
                with pytest.raises(WireError) if is_refused else nullcontext():
                    await client.answer(request)
        assert (received.on_loop, received.most) == (20, 2)


async def test_messages_with_bulk_data_are_read_without_a_rest() -> None:
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        with counted(ServingConnection, "receive") as received:
            params = {"processId": "p", "chunk": encode(bytes(TEXT_BYTES_PER_TURN)), "writeId": None}
            asked = [client.request("process/write", params) for _ in range(8)]
            for request in asked:
                await client.answer(request)
        assert received.most == 8


async def test_reads_of_long_output_are_answered_one_in_a_turn() -> None:
    async with session() as client:
        await client.start("p", "/bin/sh", "-c", "head -c 60000 /dev/zero")
        await client.finish("p")
        with counted(process, "_read_now") as reads:
            asked = [client.request("process/read", {"processId": "p"}) for _ in range(50)]
            for request in asked:
                await client.answer(request)
        assert (reads.on_loop, reads.most) == (50, 1)


async def test_snapshots_are_answered_by_and_by() -> None:
    count, streams = 100, 3
    async with session() as client:
        await client.start("p", "/bin/sh", "-c", "head -c 60000 /dev/zero")
        await client.finish("p")
        with counted(OutputLog, "kept") as looks:
            asked = [client.request("process/snapshot", {"processId": "p"}) for _ in range(count)]
            for request in asked:
                await client.answer(request)
        assert looks.on_loop == count * streams
        assert looks.most <= 2 * ANSWERS_PER_TURN * streams


async def test_lists_of_many_processes_are_made_one_in_a_turn() -> None:
    words = ["x" * 100] * 40
    async with session() as client:
        for number in range(20):
            await client.start(f"p{number}", "/bin/true", *words)
        with counted(process, "ListResult") as lists:
            asked = [client.request("process/list", {}) for _ in range(50)]
            for request in asked:
                await client.answer(request)
        assert (lists.on_loop, lists.most) == (50, 1)


async def test_long_list_of_processes_is_made_in_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as server:
        client, operator = attach(server), attach(server, is_operator=True)
        await client.initialize()
        await operator.initialize(capabilities={"extensions": True})
        for number in range(20):
            await client.start(f"p{number}", "/bin/sleep", "1000")
        for asker, method, handlers in (
            (client, "process/list", process),
            (operator, "control/status", control),
        ):
            listed = await asker.call(method)
            with monkeypatch.context() as patch, counted(LongList, "add") as elements:
                patch.setattr(handlers, "AT_ONCE", 19)
                patch.setattr("paddock.fs.step_scheduler.STEPS_PER_TURN", 1)
                in_steps = await asker.call(method)
            assert (elements.on_loop, elements.most) == (20, 1)
            listed.get("server", {}).pop("uptimeMs", None)
            in_steps.get("server", {}).pop("uptimeMs", None)
            assert in_steps == listed


async def test_a_client_is_not_read_on_while_much_text_waits() -> None:
    paths = [["no such key"]] * (TEXT_BYTES_PER_TURN // 20)
    params = {"cwd": "/", "configPaths": paths, "requirementsPaths": []}
    count = 2 * WAITING_TEXT_BYTES // TEXT_BYTES_PER_TURN
    async with session(concurrent_requests=2) as client:
        for process in ("p", "q"):
            await client.start(process, "/bin/sleep", "1000", pipeStdin=True)
            # More than the queue and the widest pipe hold, so that the answer waits for the process.
            chunk = encode(bytes(3 * QUEUE_LIMIT_BYTES))
            client.request("process/write", {"processId": process, "chunk": chunk, "writeId": "1"})
        with counted(ServingConnection, "receive") as received:
            for _ in range(count):
                client.request("environmentConfig/read", params)
            for _ in range(4 * count):
                await asyncio.sleep(0)
        assert count // 8 < received.on_loop <= count * 3 // 4

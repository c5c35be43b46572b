"""Requests of one connection: concurrent, with a control lane, in order where it matters."""

from __future__ import annotations

from tests.wire import encode, session, start_params


async def test_control_requests_overtake_as_many_long_polls_as_there_may_be() -> None:
    async with session(concurrent_requests=2) as client:
        await client.start("p", "/bin/sleep", "1000")
        polls = [client.request("process/wait", {"processId": "p"}) for _ in range(5)]

        assert await client.call("environment/status") == {"status": "ready"}
        assert await client.call("process/signal", {"processId": "p", "signal": "CONT"}) == {}
        assert await client.call("process/terminate", {"processId": "p"}) == {"running": True}
        for poll in polls:
            assert (await client.answer(poll))["exitCode"] == 137


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
    async with session(concurrent_requests=2, queued_requests=4) as client:
        await client.start("p", "/bin/sleep", "1000")
        polls = [client.request("process/wait", {"processId": "p", "timeoutMs": 1}) for _ in range(100)]
        for poll in polls:
            assert (await client.answer(poll))["exited"] is False


async def test_a_terminate_does_not_overtake_a_start_that_waits_for_its_turn() -> None:
    async with session(concurrent_requests=2) as client:
        await client.start("busy", "/bin/cat", pipeStdin=True)
        for _ in range(2):
            client.request("process/wait", {"processId": "busy"})
        start = client.request("process/start", start_params("p", "/bin/sleep", "1000"))
        end = client.request("process/terminate", {"processId": "p"})
        await client.call("process/terminate", {"processId": "busy"})

        assert (await client.answer(start))["processId"] == "p"
        assert await client.answer(end) == {"running": True}

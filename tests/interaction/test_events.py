"""Numbering, order and timing of process events."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.wire import attach, encode, served, session, shell, start_params


async def test_events_follow_the_answer_and_are_numbered_without_gaps() -> None:
    async with session() as client:
        for index in range(50):
            request = client.request(
                "process/start",
                {"processId": str(index), "argv": ["/bin/echo", "x"], "cwd": "/", "env": {}, "tty": False},
            )
            first = await client.next()
            assert first["id"] == request
            finished = await client.finish(str(index))
            assert finished.seqs == [1, 2, 3]
            assert finished.streams == {"stdout": b"x\n"}
            assert finished.exit_code == 0


async def test_the_exit_is_published_while_a_background_child_holds_the_streams() -> None:
    async with session() as client:
        await client.start("p", *shell("sleep 1000 & exit 4"))

        exited = await client.event("p", "process/exited")
        assert (exited["seq"], exited["exitCode"], exited["cause"]) == (1, 4, "exit")
        read = await client.call("process/read", {"processId": "p"})
        assert (read["exited"], read["closed"]) == (True, False)
        killed = await client.call("process/terminate", {"processId": "p"})
        assert killed == {"running": False}
        assert (await client.event("p", "process/closed"))["seq"] == 2


async def test_output_after_the_exit_still_arrives_and_the_end_comes_last(tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    fifo.touch()
    async with session() as client:
        script = f"( tail -f --pid=$$ {fifo} >/dev/null; echo late; echo err >&2 ) & exit 0"
        await client.start("p", *shell(script))

        finished = await client.finish("p")

    assert finished.streams == {"stdout": b"late\n", "stderr": b"err\n"}
    assert finished.methods[0] == "process/exited"
    assert finished.methods[-1] == "process/closed"


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize(("number", "code"), [(9, 137), (15, 143), (2, 130)])
async def test_death_by_signal_is_128_and_its_number_on_pipes_and_terminals(
    tty: bool, number: int, code: int
) -> None:
    async with session() as client:
        await client.start("p", *shell(f"kill -{number} $$"), tty=tty)

        assert (await client.finish("p")).exit_code == code


async def test_large_output_of_both_streams_arrives_whole_and_in_order() -> None:
    script = "head -c 3000000 /dev/zero & head -c 2000000 /dev/zero >&2; wait"
    async with session() as client:
        await client.start("p", *shell(script))
        finished = await client.finish("p")

    assert {name: len(data) for name, data in finished.streams.items()} == {
        "stdout": 3_000_000,
        "stderr": 2_000_000,
    }


async def test_a_terminal_is_one_stream() -> None:
    async with session() as client:
        await client.start("p", *shell("echo out; echo err >&2"), tty=True)

        assert (await client.finish("p")).streams == {"pty": b"out\r\nerr\r\n"}


async def test_optional_notifications_go_only_to_who_asked() -> None:
    async with session() as plain:
        await plain.start("p", "/bin/true")
        await plain.finish("p")
        assert all(message.get("method") != "process/started" for message in plain.unread)


async def test_started_comes_after_the_answer_and_failed_after_the_error() -> None:
    async with served() as server:
        client = attach(server)
        names = ["process/started", "process/failed"]
        await client.initialize(capabilities={"extensions": True, "notifications": names})
        good = client.request("process/start", start_params("p", "/bin/true"))
        assert (await client.next())["id"] == good
        assert (await client.next())["method"] == "process/started"
        await client.finish("p")
        bad = client.request("process/start", start_params("q", "/no/such/program"))
        assert (await client.next())["id"] == bad
        failed = await client.next()
        assert failed["method"] == "process/failed"
        assert "/no/such/program" in failed["params"]["message"]


async def test_a_long_poll_ends_with_the_output_it_waited_for() -> None:
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        poll = client.request("process/read", {"processId": "p", "waitMs": 50_000})
        await client.call("process/write", {"processId": "p", "chunk": encode(b"hi")})

        read = await client.answer(poll)

        assert [chunk["chunk"] for chunk in read["chunks"]] == [encode(b"hi")]
        closing = client.request("process/read", {"processId": "p", "afterSeq": 1, "waitMs": 50_000})
        await client.call("process/closeStdin", {"processId": "p"})
        assert (await client.answer(closing))["exited"]


async def test_waiting_ends_with_the_exit_and_a_timeout_is_an_answer() -> None:
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        timed_out = await client.call("process/wait", {"processId": "p", "timeoutMs": 1})
        assert timed_out == {"exited": False, "exitCode": None, "closed": False, "sandboxDenied": False}
        wait = client.request("process/wait", {"processId": "p"})
        await client.call("process/closeStdin", {"processId": "p"})

        async with asyncio.timeout(20):
            result = await client.answer(wait)

        assert (result["exited"], result["exitCode"]) == (True, 0)

"""A slow or dead client costs bounded memory, loses nothing and stalls nobody else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from paddock.server.dispatch import Dispatcher
from paddock.transport.limits import TransportLimits
from tests.wire import WireError, attach, encode, served, shell

SEND_BUFFER = 64 * 1024
LIMITS = TransportLimits(write_high_water_bytes=SEND_BUFFER)


async def test_a_client_that_stops_reading_pauses_its_processes_and_loses_nothing() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        slow, other = attach(server, LIMITS), attach(server)
        await slow.initialize()
        await other.initialize()
        slow.link.pause_reading()
        slow.send(start("flood", "head -c 6000000 /dev/zero; echo $?"))
        await other.start("p", "/bin/echo", "alive")
        assert (await other.finish("p")).streams == {"stdout": b"alive\n"}
        await other.start("size", *shell("head -c 3000000 /dev/zero"))
        assert len((await other.finish("size")).streams["stdout"]) == 3_000_000
        held = slow.server_link.buffered_bytes
        assert held < 4 * SEND_BUFFER

        slow.link.resume_reading()
        finished = await slow.finish("flood")

        assert len(finished.streams["stdout"]) == 6_000_002


async def test_what_is_started_for_a_client_that_does_not_read_is_paused_from_the_beginning() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        slow, other = attach(server, LIMITS), attach(server)
        await slow.initialize()
        await other.initialize()
        slow.link.pause_reading()
        slow.send(start("flood", "head -c 6000000 /dev/zero"))
        async with asyncio.timeout(30):
            while slow.server_link.buffered_bytes < SEND_BUFFER:
                await other.call("environment/status")
        slow.send(start("late", "head -c 3000000 /dev/zero"))
        await other.start("p", *shell("head -c 3000000 /dev/zero"))
        await other.finish("p")
        assert slow.server_link.buffered_bytes < 4 * SEND_BUFFER

        slow.link.resume_reading()

        assert len((await slow.finish("late")).streams["stdout"]) == 3_000_000
        assert len((await slow.finish("flood")).streams["stdout"]) == 6_000_000


async def test_a_client_that_does_not_read_its_answers_is_not_read_either() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        client = attach(server, LIMITS)
        await client.initialize()
        client.link.pause_reading()
        count = 5_000
        for index in range(count):
            client.send({"id": index + 1000, "method": "environment/info"})
        other = attach(server)
        await other.initialize()
        for _ in range(200):
            await other.call("environment/status")
        assert client.server_link.buffered_bytes < 9 * SEND_BUFFER

        client.link.resume_reading()
        for index in range(count):
            assert (await client.next())["id"] == index + 1000


async def test_no_request_that_waits_begins_while_its_client_does_not_read(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"{number:0200}").touch()
    async with served(send_buffer_bytes=SEND_BUFFER, concurrent_requests=2) as server:
        client = attach(server, LIMITS)
        await client.initialize()
        client.link.pause_reading()
        count = 40
        for index in range(count):
            client.send(
                {"id": index + 1000, "method": "fs/readDirectory", "params": {"path": tmp_path.as_uri()}}
            )
        other = attach(server)
        await other.initialize()
        for _ in range(200):
            await other.call("fs/readDirectory", {"path": tmp_path.as_uri()})
        # Each answer has more than a send buffer: some that had begun are made, and no others.
        assert client.server_link.buffered_bytes < 12 * SEND_BUFFER

        client.link.resume_reading()
        answered = [(await client.next())["id"] for _ in range(count)]
        assert sorted(answered) == [index + 1000 for index in range(count)]


async def test_output_stays_paused_when_requests_that_waited_fill_the_link_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = Dispatcher.release

    def fill_link(dispatcher: Dispatcher) -> None:
        release(dispatcher)
        connection = cast(Any, dispatcher._advanced).__self__
        # Some links say so within the call that fills them, such as those over TLS.
        connection.writing_paused()

    monkeypatch.setattr(Dispatcher, "release", fill_link)
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        slow, other = attach(server, LIMITS), attach(server)
        await slow.initialize()
        await other.initialize()
        slow.link.pause_reading()
        slow.send(start("flood", "yes"))
        async with asyncio.timeout(30):
            while slow.server_link.buffered_bytes < SEND_BUFFER:
                await other.call("environment/status")
        slow.link.resume_reading()
        counts = []
        for number in range(3):
            await other.start(f"p{number}", *shell("head -c 3000000 /dev/zero"))
            await other.finish(f"p{number}")
            counts.append(len(slow.unread))
        assert counts[-1] == counts[-2]


async def test_input_that_the_processes_of_a_session_do_not_read_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.server.handlers.process.SESSION_INPUT_BYTES", 4_000_000)
    async with served() as server:
        client = attach(server)
        await client.initialize()
        # A pipe takes the first part of it.
        chunk = {"chunk": encode(bytes(3_000_000))}
        for name in "abcd":
            waiting = f"until [ -e {tmp_path}/{name} ]; do sleep 0.02; done; exec cat > /dev/null"
            await client.start(name, *shell(waiting), pipeStdin=True)
        accepted = client.request("process/write", {"processId": "a", **chunk})
        with pytest.raises(WireError, match="does not read its stdin"):
            await client.call("process/write", {"processId": "b", **chunk})
        # A little for each is not counted, and another session has its own bound.
        await client.call("process/write", {"processId": "c", "chunk": encode(b"x")})
        other = attach(server)
        await other.initialize()
        await other.start("a", "/bin/cat", pipeStdin=True)
        await other.call("process/write", {"processId": "a", **chunk})

        (tmp_path / "a").touch()
        await client.call("process/closeStdin", {"processId": "a"})
        await client.answer(accepted)
        await client.event("a", "process/closed")
        (tmp_path / "b").touch()
        await client.call("process/write", {"processId": "b", **chunk})


async def test_large_answer_that_finds_no_room_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paddock.server.answer_memory.ANSWER_BYTES", 1_000_000)
    monkeypatch.setattr("paddock.server.answer_memory.LARGE_ANSWER_WAIT_S", 0.01)
    monkeypatch.setattr("paddock.server.app.LARGE_ANSWERS_BYTES", 4_000_000)
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(bytes(3_000_000))
    small.write_bytes(bytes(200_000))
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        slow, other = attach(server, LIMITS), attach(server)
        await slow.initialize()
        await other.initialize()
        slow.link.pause_reading()
        slow.send({"id": 1, "method": "fs/readFile", "params": {"path": large.as_uri()}})
        async with asyncio.timeout(30):
            while slow.server_link.buffered_bytes < SEND_BUFFER:
                await other.call("environment/status")

        with pytest.raises(WireError, match="no memory for an answer of 4000000 bytes"):
            await other.call("fs/readFile", {"path": large.as_uri()})
        await other.call("fs/readFile", {"path": small.as_uri()})

        slow.link.resume_reading()
        assert len((await slow.next())["result"]["dataBase64"]) == 4_000_000
        await other.call("fs/readFile", {"path": large.as_uri()})


async def test_a_client_that_does_not_read_its_refusals_is_not_read_either() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        client = attach(server, LIMITS)
        await client.initialize()
        client.link.pause_reading()
        for _ in range(20_000):
            client.link.send(b"x")
        other = attach(server)
        await other.initialize()
        for _ in range(200):
            await other.call("environment/status")

        assert client.server_link.buffered_bytes < 9 * SEND_BUFFER


async def test_a_session_resumed_over_a_congested_connection_stays_paused() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        first = attach(server)
        session_id = (await first.initialize())["sessionId"]
        await first.start("flood", "/usr/bin/yes")
        first.link.abort()
        await first.closed()
        second = attach(server, LIMITS)
        second.link.pause_reading()
        for index in range(2_000):
            second.send({"id": index, "method": "no/such"})
        second.send(
            {"id": "r", "method": "initialize", "params": {"clientName": "x", "resumeSessionId": session_id}}
        )
        other = attach(server)
        await other.initialize()
        await other.start("p", *shell("head -c 3000000 /dev/zero"))
        await other.finish("p")

        assert second.server_link.buffered_bytes < 9 * SEND_BUFFER


async def test_a_client_that_vanishes_lets_its_paused_processes_go_on() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        client = attach(server, LIMITS)
        session_id = (await client.initialize())["sessionId"]
        client.link.pause_reading()
        client.send(start("flood", "head -c 5000000 /dev/zero"))
        other = attach(server)
        await other.initialize()
        await other.start("p", "/bin/true")
        await other.finish("p")
        client.link.abort()
        await client.closed()

        back = attach(server)
        await back.initialize(resumeSessionId=session_id)
        async with asyncio.timeout(30):
            assert (await back.call("process/wait", {"processId": "flood"}))["exitCode"] == 0


async def test_control_requests_get_through_while_output_is_held_back() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        client = attach(server, LIMITS)
        await client.initialize()
        client.link.pause_reading()
        client.send(start("flood", "cat /dev/zero"))
        other = attach(server)
        await other.initialize()
        for _ in range(50):
            await other.call("environment/status")
        client.send({"id": 5, "method": "process/terminate", "params": {"processId": "flood"}})
        client.link.resume_reading()

        assert (await client.finish("flood")).exit_code == 137


def start(process_id: str, script: str) -> dict[str, object]:
    params = {"processId": process_id, "argv": list(shell(script)), "cwd": "/", "env": {}, "tty": False}
    return {"id": f"start {process_id}", "method": "process/start", "params": params}

"""Sessions outlive connections, and end when nobody comes back."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.wire import WireError, attach, encode, served, shell, start_params


async def test_a_detached_session_runs_on_and_is_resumed_without_replay() -> None:
    async with served() as server:
        first = attach(server)
        session_id = (await first.initialize())["sessionId"]
        await first.start("p", "/bin/cat", pipeStdin=True)
        first.link.abort()
        await first.closed()

        second = attach(server)
        assert (await second.initialize(resumeSessionId=session_id))["sessionId"] == session_id
        assert not second.unread
        await second.call("process/write", {"processId": "p", "chunk": encode(b"back")})
        assert (await second.event("p", "process/output"))["seq"] == 1


async def test_an_attached_session_refuses_a_second_client() -> None:
    async with served() as server:
        first, second = attach(server), attach(server)
        session_id = (await first.initialize())["sessionId"]

        with pytest.raises(WireError) as caught:
            await second.call("initialize", {"clientName": "x", "resumeSessionId": session_id})

        assert caught.value.code == -32010
        assert (await second.initialize())["sessionId"] != session_id


async def test_processes_belong_to_their_session() -> None:
    async with served() as server:
        first, second = attach(server), attach(server)
        await first.initialize()
        await second.initialize()
        await first.start("p", "/bin/sleep", "1000")

        with pytest.raises(WireError, match="unknown process"):
            await second.call("process/read", {"processId": "p"})
        assert await second.call("process/list") == {"processes": []}


async def test_output_while_detached_is_retained_and_its_loss_is_said() -> None:
    async with served(retained_output_bytes_per_process=64 * 1024) as server:
        first = attach(server)
        session_id = (await first.initialize(capabilities={"extensions": True}))["sessionId"]
        await first.start("p", *shell("read x; head -c 300000 /dev/zero; echo end"), pipeStdin=True)
        first.send(
            {"id": 99, "method": "process/write", "params": {"processId": "p", "chunk": encode(b"\n")}}
        )
        await first.answer(99)
        first.link.abort()
        await first.closed()

        second = attach(server)
        await second.initialize(resumeSessionId=session_id, capabilities={"extensions": True})
        while not (
            await second.call("process/read", {"processId": "p", "afterSeq": 10**9, "waitMs": 20_000})
        )["closed"]:
            pass
        read = await second.call("process/read", {"processId": "p"})

    kept = sum(len(base64.b64decode(chunk["chunk"])) for chunk in read["chunks"])
    assert kept + sum(gap["bytes"] for gap in read["gaps"]) == 300_004


async def test_a_session_that_nobody_resumes_ends_its_processes_but_not_the_kept_ones(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    os.mkfifo(ended)
    async with served(session_ttl_s=0) as server:
        client = attach(server)
        session_id = (await client.initialize())["sessionId"]
        script = f"trap 'echo TERM > {ended}; exit' TERM; echo ready; while :; do sleep 0.01; done"
        await client.start("p", *shell(script))
        await client.start("kept", "/bin/sleep", "1000", keepAlive=True)
        await client.event("p", "process/output")
        client.link.abort()

        assert await asyncio.to_thread(ended.read_text) == "TERM\n"

        back = attach(server)
        await back.initialize(resumeSessionId=session_id)
        listed = await back.call("process/list")
        running = {process["processId"]: process["running"] for process in listed["processes"]}
        assert running["kept"] is True


async def test_an_ended_session_is_unknown() -> None:
    async with served(session_ttl_s=0) as server:
        client = attach(server)
        session_id = (await client.initialize())["sessionId"]
        client.link.abort()
        await client.closed()
        for _ in range(10):
            # The loss travels through the memory transport in a few turns of the loop.
            await asyncio.sleep(0)
        other = attach(server)

        with pytest.raises(WireError, match="unknown session") as caught:
            await other.call("initialize", {"clientName": "x", "resumeSessionId": session_id})

        assert caught.value.code == -32600


async def test_a_start_survives_the_loss_of_its_connection_and_happens_once(tmp_path: Path) -> None:
    marks, told = tmp_path / "marks", tmp_path / "told"
    os.mkfifo(told)
    async with served() as server:
        first = attach(server)
        session_id = (await first.initialize())["sessionId"]
        script = f"echo started >> {marks}; echo > {told}; exec sleep 1000"
        params = start_params("p", *shell(script), idempotencyKey="k")
        first.request("process/start", params)
        await asyncio.sleep(0)
        first.link.abort()
        await first.closed()

        second = attach(server)
        await second.initialize(resumeSessionId=session_id)
        assert (await second.call("process/start", params))["processId"] == "p"
        listed = await second.call("process/list")
        assert [process["running"] for process in listed["processes"]] == [True]
        # The answer comes when the shell is executed, before it has done anything.
        await asyncio.to_thread(told.read_text)
        assert marks.read_text() == "started\n"


async def test_a_session_that_is_being_ended_cannot_be_resumed(tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    async with served(session_ttl_s=0) as server:
        client = attach(server)
        session_id = (await client.initialize())["sessionId"]
        script = f"trap 'echo > {told}; sleep 1000' TERM; echo ready; while :; do sleep 0.01; done"
        await client.start("p", *shell(script))
        await client.event("p", "process/output")
        client.link.abort()
        await asyncio.to_thread(told.read_text)

        other = attach(server)
        with pytest.raises(WireError, match="unknown session"):
            await other.call("initialize", {"clientName": "x", "resumeSessionId": session_id})


async def test_a_connection_that_has_gone_silent_is_noticed_and_its_session_resumed() -> None:
    async with served(ping_interval_s=0.5, ping_timeout_s=1.0) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        greeting = json.dumps({"id": 1, "method": "initialize", "params": {"clientName": "silent"}}).encode()
        writer.write(bytes((0x81, 0x80 | len(greeting))) + bytes(4) + greeting)
        session_id = re.search(rb'"sessionId":"([^"]+)"', await reader.readuntil(b"environmentInfo"))
        assert session_id is not None

        # It never answers a ping. The server keeps it, for its host answers, until somebody asks for its
        # session.
        resumed = None
        async with asyncio.timeout(30):
            while resumed is None:
                try:
                    resumed = await attach(server).initialize(resumeSessionId=session_id[1].decode())
                except WireError:
                    await reader.read(65536)
        assert resumed["sessionId"] == session_id[1].decode()
        while await reader.read(65536):
            pass
        writer.close()


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


async def test_whoever_comes_and_goes_leaves_few_sessions_and_ends_no_work_of_others() -> None:
    async with served(max_connections=3) as server:
        worker = attach(server)
        session_id = (await worker.initialize())["sessionId"]
        await worker.start("p", "/bin/cat", pipeStdin=True)
        worker.link.abort()
        await worker.closed()
        gone = []
        for _ in range(10):
            client = attach(server)
            gone.append((await client.initialize())["sessionId"])
            client.link.abort()
            await client.closed()
        last = attach(server)
        with pytest.raises(WireError, match="unknown session"):
            await last.call("initialize", {"clientName": "x", "resumeSessionId": gone[0]})
        await last.initialize(resumeSessionId=session_id)
        await last.call("process/write", {"processId": "p", "chunk": encode(b"back")})
        assert (await last.event("p", "process/output"))["seq"] == 1
        with pytest.raises(WireError, match="unknown session"):
            await attach(server).call("initialize", {"clientName": "x", "resumeSessionId": gone[-4]})

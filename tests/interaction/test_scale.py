"""Many processes, many connections, and nothing leaked by either."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import resource

import pytest

from paddock.config import Settings
from paddock.server.app import Server, serve
from paddock.transport import websocket
from tests.processes import descendants_of, open_descriptors
from tests.wire import WireClient, attach, encode, session, shell

_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 300
"""Open files that the tests may need, besides those of the test runner."""
PROCESSES = min(1000, _FILES // 4)
CONNECTIONS = min(200, _FILES // 6)
"""Both ends of each are in this process."""


class Census:
    """What this program holds besides its memory."""

    def __init__(self) -> None:
        gc.collect()
        self.descriptors = open_descriptors()
        self.tasks = len(asyncio.all_tasks())
        self.descendants = frozenset(descendants_of(os.getpid()))

    def added_since(self, earlier: Census) -> dict[str, object]:
        """What there is more than before. What an earlier test has left may end meanwhile."""
        added: dict[str, object] = {
            "descriptors": self.descriptors - earlier.descriptors,
            "tasks": self.tasks - earlier.tasks,
            "descendants": sorted(self.descendants - earlier.descendants),
        }
        return {kind: value for kind, value in added.items() if value}


async def dial(server: Server) -> WireClient:
    """A client over a real websocket."""
    client = WireClient()
    client.link = await websocket.connect(server.url, lambda _link: client)
    return client


@pytest.mark.unmeasured
@pytest.mark.timeout(300)
async def test_a_thousand_live_processes_on_one_connection_and_none_leaked() -> None:
    async with serve(Settings(closed_process_ttl_s=0)) as server:
        client = await dial(server)
        await client.initialize()
        await client.start("warm", "/bin/true")
        await client.finish("warm")
        before = Census()

        names = [f"p{index}" for index in range(PROCESSES)]
        for group in range(0, PROCESSES, 100):
            starts = [client.start(name, "/bin/cat", pipeStdin=True) for name in names[group : group + 100]]
            await asyncio.gather(*starts)
        listed = await client.call("process/list")
        assert sum(process["running"] for process in listed["processes"]) == PROCESSES
        for name in names:
            client.request("process/write", {"processId": name, "chunk": encode(name.encode())})
            client.request("process/closeStdin", {"processId": name})
        for name in names:
            finished = await client.finish(name)
            assert (finished.streams, finished.exit_code) == ({"stdout": name.encode()}, 0)

        await client.call("environment/status")
        assert not Census().added_since(before)


@pytest.mark.unmeasured
@pytest.mark.timeout(300)
async def test_two_hundred_connections_at_once_and_none_leaked() -> None:
    async with serve(Settings(closed_process_ttl_s=0, session_ttl_s=0)) as server:
        steady = await dial(server)
        await steady.initialize()
        before = Census()

        clients = await asyncio.gather(*(dial(server) for _ in range(CONNECTIONS)))
        await asyncio.gather(*(client.initialize() for client in clients))
        await asyncio.gather(*(client.start("p", *shell("echo $$")) for client in clients))
        ends = await asyncio.gather(*(client.finish("p") for client in clients))
        assert len({end.streams["stdout"] for end in ends}) == CONNECTIONS
        for index, client in enumerate(clients):
            if index % 2:
                client.link.close()
            else:
                client.link.abort()
        await asyncio.gather(*(client.closed() for client in clients))
        await server.quiet()

        assert not Census().added_since(before)


@pytest.mark.unmeasured
async def test_a_failed_start_leaks_nothing() -> None:
    async with serve(Settings()) as server:
        client = attach(server)
        await client.initialize()
        before = Census()

        requests = [
            client.request(
                "process/start",
                {
                    "processId": str(index),
                    "argv": ["/no/such"],
                    "cwd": "/",
                    "env": {},
                    "tty": bool(index % 2),
                },
            )
            for index in range(200)
        ]
        for request in requests:
            assert "error" in await client.take(lambda found, wanted=request: found.get("id") == wanted)  # type: ignore[misc]

        assert not Census().added_since(before)


def mutated(generator: random.Random, message: bytes) -> bytes:
    """A message with some bytes changed, cut out or doubled."""
    data = bytearray(message)
    for _ in range(generator.randrange(1, 4)):
        position = generator.randrange(len(data) + 1)
        match generator.randrange(4):
            case 0:
                data[position:position] = bytes([generator.randrange(256)])
            case 1:
                del data[position : position + generator.randrange(1, 9)]
            case 2:
                data[position:position] = data[: generator.randrange(1, 30)]
            case _ if position < len(data):
                data[position] = generator.randrange(256)
    return bytes(data)


VALID = [
    {"id": "m1", "method": "environment/status"},
    {"id": "x", "method": "process/read", "params": {"processId": "p", "afterSeq": 3, "waitMs": 0}},
    {"id": "m2", "method": "process/write", "params": {"processId": "p", "chunk": "eA==", "writeId": "1"}},
    {"id": "m3", "method": "process/signal", "params": {"processId": "p", "signal": "CONT"}},
    {"id": "m4", "method": "fs/readFile", "params": {"path": "file:///etc/hostname"}},
    {"method": "initialized", "params": {}},
    {"id": "m5", "method": "process/resize", "params": {"processId": "p", "rows": 5, "cols": 5}},
]


async def test_broken_messages_get_an_error_and_the_server_serves_on() -> None:
    generator = random.Random(7)
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        for _ in range(5000):
            message = mutated(generator, json.dumps(generator.choice(VALID)).encode())
            if b"result" not in message and b"error" not in message:
                client.link.send(message)
        status = await client.call("environment/status")
        listed = await client.call("process/list")

    assert status == {"status": "ready"}
    assert [process["processId"] for process in listed["processes"]] == ["p"]


async def test_a_message_over_the_limit_drops_the_connection_and_only_that() -> None:
    async with serve(Settings(max_message_bytes=100_000, max_frame_bytes=50_000)) as server:
        loud, quiet = await dial(server), await dial(server)
        await quiet.initialize()
        loud.send({"id": 1, "method": "x" * 60_000})
        await loud.closed()

        assert await quiet.call("environment/status") == {"status": "ready"}

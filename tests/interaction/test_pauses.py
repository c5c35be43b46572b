"""A client that is stopped for longer than a ping may take: it is paused, and loses nothing."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import paddock
from paddock.errors import SessionAttached
from tests.wire import served, shell

CLIENT = """
import asyncio, sys
import paddock

async def main():
    ping_timeout_s = float(sys.argv[3]) or None
    async with paddock.connect(sys.argv[1], ping_interval_s=0.2, ping_timeout_s=ping_timeout_s) as box:
        process = await box.start(["sh", "-c", sys.argv[2]], stdin=True)
        seen = 0
        async for output in process.output():
            if not seen:
                print(box.session_id, flush=True)
            seen += len(output.data)
        print(await process.wait(), seen, flush=True)

asyncio.run(main())
"""

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)

PING_INTERVAL_S = 0.1
PING_TIMEOUT_S = 0.3

CLIENT_PING_TIMEOUT_S = 2.0
"""Less than a client is stopped for, which then finds its own deadline passed. No host is so busy."""


@asynccontextmanager
async def client_of(
    url: str, script: str, ping_timeout_s: float | None = CLIENT_PING_TIMEOUT_S
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A client in a process of its own, which runs a script and counts its output."""
    arguments = (url, script, str(ping_timeout_s or 0))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CLIENT,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        # An init that another test starts continues its whole group at its end: a stopped client stays so.
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode().strip()


async def outlast_ping_timeouts(url: str, timeout_s: float = 3 * PING_TIMEOUT_S) -> None:
    """Wait for so many pings of the server that a silent peer would be given up, by default several times."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.write(UPGRADE)
    await reader.readuntil(b"\r\n\r\n")
    for _ in range(math.ceil(timeout_s / PING_INTERVAL_S) + 3):
        assert await reader.readexactly(2) == b"\x89\x00"
        # A pong, masked with zeros: this one is no silent peer.
        writer.write(b"\x8a\x80\0\0\0\0")
    writer.close()
    await writer.wait_closed()


SCRIPTS = {
    "at full speed": ("head -c 40000000 /dev/zero", 40_000_000),
    "a little at a time": ("for i in $(seq 200); do head -c 20000 /dev/zero; sleep 0.01; done", 4_000_000),
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_client_that_was_stopped_gets_every_byte(name: str) -> None:
    script, size_bytes = SCRIPTS[name]
    async with (
        served(
            ping_interval_s=PING_INTERVAL_S,
            ping_timeout_s=PING_TIMEOUT_S,
            # Whatever the process writes while nobody is attached is a gap.
            retained_output_bytes_per_process=64 * 1024,
        ) as server,
        client_of(server.url, script) as client,
    ):
        assert await line_of(client)
        client.send_signal(signal.SIGSTOP)
        await outlast_ping_timeouts(server.url, CLIENT_PING_TIMEOUT_S)
        client.send_signal(signal.SIGCONT)
        assert await line_of(client) == f"0 {size_bytes}"


async def test_a_client_that_was_stopped_with_nothing_to_read_gets_every_byte(tmp_path: Path) -> None:
    """The process writes when the client has been silent for long, and the client loses none of it."""
    go = tmp_path / "go"
    os.mkfifo(go)
    async with (
        served(
            ping_interval_s=PING_INTERVAL_S,
            ping_timeout_s=PING_TIMEOUT_S,
            retained_output_bytes_per_process=64 * 1024,
        ) as server,
        client_of(server.url, f"echo; read line < {go}; head -c 40000000 /dev/zero") as client,
    ):
        assert await line_of(client)
        client.send_signal(signal.SIGSTOP)
        await outlast_ping_timeouts(server.url)
        await asyncio.to_thread(go.write_text, "go\n")
        await outlast_ping_timeouts(server.url, CLIENT_PING_TIMEOUT_S)
        client.send_signal(signal.SIGCONT)
        assert await line_of(client) == "0 40000001"


@pytest.mark.unmeasured
async def test_a_consumer_that_does_not_iterate_gets_every_byte() -> None:
    size_bytes = 100_000_000
    async with (
        served(
            ping_interval_s=PING_INTERVAL_S,
            ping_timeout_s=PING_TIMEOUT_S,
            retained_output_bytes_per_process=64 * 1024,
        ) as server,
        paddock.connect(server.url, ping_interval_s=None) as box,
    ):
        process = await box.start(shell(f"head -c {size_bytes} /dev/zero"))
        await anext(aiter(process))
        read_bytes = 0
        await outlast_ping_timeouts(server.url)
        session_id = box.session_id
        async for output in process.output():
            read_bytes += len(output.data)
        assert read_bytes > size_bytes - 1_000_000
        assert (await process.wait(), box.session_id) == (0, session_id)


async def test_a_session_is_given_to_who_asks_for_it_when_its_client_does_not_answer() -> None:
    async with (
        served(ping_interval_s=PING_INTERVAL_S, ping_timeout_s=PING_TIMEOUT_S) as server,
        # One that gave up its connection before it is stopped would end its command.
        client_of(server.url, "head -c 40000000 /dev/zero; read line; echo $line", None) as client,
    ):
        session_id = await line_of(client)
        client.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(60):
            box = await resumed(server.url, session_id)
        async with box:
            (summary,) = await box.processes()
            process = await box.attach(summary.process_id)
            await process.write(b"mine\n")
            items = [item async for item in process.output(on_gap="yield")]
            assert isinstance(items[-1], paddock.Output)
            assert items[-1].data.endswith(b"mine\n")


async def resumed(url: str, session_id: str) -> paddock.Box:
    """Ask for a session until it is given."""
    while True:
        try:
            return await paddock.connect(url, resume=session_id)
        except SessionAttached:
            await outlast_ping_timeouts(url)


async def test_a_client_that_answers_keeps_its_session() -> None:
    async with (
        served(ping_interval_s=PING_INTERVAL_S, ping_timeout_s=PING_TIMEOUT_S) as server,
        paddock.connect(server.url) as box,
    ):
        for _ in range(2):
            await outlast_ping_timeouts(server.url)
            with pytest.raises(SessionAttached):
                await paddock.connect(server.url, resume=box.session_id)
        assert (await box.run(["echo", "mine"])).stdout == b"mine\n"

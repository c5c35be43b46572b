"""How much passes through the policy proxy, and how much memory and how many descriptors that takes."""

from __future__ import annotations

import asyncio
import resource
import tracemalloc
from collections.abc import Iterator

import pytest

from paddock.server.descriptor_limit import DESCRIPTOR_LIMIT
from tests.unit.network.scene import (
    ANSWER,
    GOOD,
    Scene,
    read_head,
    request,
)

GIB = 1 << 30


@pytest.mark.parametrize("size", [GIB // 16, pytest.param(GIB, marks=pytest.mark.soak)])
async def test_large_body_of_a_request_passes_in_bounded_memory(scene: Scene, size: int) -> None:
    piece = bytes(1 << 18)
    got = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        await read_head(reader)
        while got < size:
            # Less at a time than the client sends.
            got += len(await reader.read(1 << 16))
            await asyncio.sleep(0)
        writer.write(ANSWER)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    tracemalloc.start()
    try:
        writer.write(
            b"PUT http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: %d\r\n\r\n" % size
        )
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()
        assert (await reader.read()).endswith(b"ok\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    writer.close()
    assert got == size
    assert peak < 16 << 20


@pytest.mark.parametrize("by", ["http", "chunks", "end", "tunnel"])
@pytest.mark.parametrize("size", [GIB // 16, pytest.param(GIB, marks=pytest.mark.soak)])
async def test_large_body_passes_in_bounded_memory(scene: Scene, size: int, by: str) -> None:
    piece = b"3fff8\r\n" + bytes(0x3FFF8) + b"\r\n" if by == "chunks" else bytes(1 << 18)
    framing = {
        "http": b"Content-Length: %d\r\n" % size,
        "chunks": b"Transfer-Encoding: chunked\r\n",
        "end": b"",
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if by in framing:
            await read_head(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n" + framing[by] + b"\r\n")
        for _ in range(size // (1 << 18)):
            writer.write(piece)
            await writer.drain()
        if by == "chunks":
            writer.write(b"0\r\n\r\n")
        writer.close()

    await scene.add_server(GOOD, 80 if by in framing else 443, serve)
    reader, writer = await scene.open()
    said = (
        request("http://good.test/")
        if by in framing
        else b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n"
    )
    writer.write(said)
    await read_head(reader)
    got = 0
    tracemalloc.start()
    try:
        while data := await reader.read(1 << 20):
            got += len(data)
            if got >> 26 != (got - len(data)) >> 26:
                # Somebody who does not read stops the server, not the proxy's memory.
                await asyncio.sleep(0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    writer.close()
    if by in ("http", "tunnel"):
        assert got == size
    else:
        # Chunks have sizes and line ends.
        assert size <= got < size + (size >> 8)
    assert peak < 16 << 20


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Each connection through the proxy has four ends in this process."""
    with DESCRIPTOR_LIMIT.raised():
        yield


@pytest.mark.unmeasured
@pytest.mark.usefixtures("many_descriptors")
async def test_five_hundred_clients_are_served_at_once(scene: Scene) -> None:
    count = min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 6)
    everybody = asyncio.Barrier(count)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        # Nobody is answered before all have asked.
        await everybody.wait()
        writer.write(ANSWER)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    answers = await asyncio.gather(*(scene.say(request("http://good.test/")) for _ in range(count)))
    assert all(answer.endswith(b"ok\n") for answer in answers)


async def test_client_that_goes_away_takes_its_connection_along(scene: Scene) -> None:
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await read_head(reader)
            assert await reader.read() == b"half"
        except ConnectionResetError:
            pass
        over.set()
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    _reader, writer = await scene.open()
    writer.write(b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()
    writer.transport.abort()
    await over.wait()

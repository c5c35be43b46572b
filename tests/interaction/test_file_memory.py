"""What large transfers cost a server, over a real websocket: memory that does not grow with the file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from paddock.transport import websocket
from paddock.transport.link import Link, Received
from tests.processes import peak_bytes
from tests.serving import serving
from tests.wire import encode

MIB = 1 << 20
BLOCK = encode(bytes(MIB))
IN_FLIGHT = 4


class Counter:
    """A receiver that reads nothing of its messages but which requests they answer."""

    def __init__(self) -> None:
        self.link: Link
        self._answered: set[int] = set()
        self._arrived = asyncio.Event()

    def message_received(self, message: Received) -> None:
        beginning = bytes(message[:100])
        assert not beginning.startswith(b'{"error"'), beginning
        self._answered.add(int(beginning[: beginning.index(b",")].removeprefix(b'{"id":')))
        self._arrived.set()

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        self._arrived.set()

    def request(self, request_id: int, method: str, params: str) -> None:
        self.link.send(f'{{"id":{request_id},"method":"{method}","params":{params}}}'.encode())

    async def answer(self, request_id: int) -> None:
        while request_id not in self._answered:
            self._arrived.clear()
            await self._arrived.wait()

    def forget(self) -> None:
        """Let the same ids be used again."""
        self._answered.clear()

    async def call(self, method: str, params: str) -> None:
        self._answered.discard(0)
        self.request(0, method, params)
        await self.answer(0)


async def dial(url: str) -> Counter:
    client = Counter()
    client.link = await websocket.connect(url, lambda _link: client)
    await client.call("initialize", '{"clientName":"t"}')
    client.link.send(b'{"method":"initialized"}')
    return client


async def transfer(client: Counter, method: str, rest: str) -> None:
    """A gibibyte in blocks, a few at a time; all of the same place, which spares the disk alone."""
    for number in range(1024):
        client.request(number, method, f'{{"handleId":"h","offset":0,{rest}}}')
        if number >= IN_FLIGHT:
            await client.answer(number - IN_FLIGHT)
    for number in range(1024 - IN_FLIGHT, 1024):
        await client.answer(number)


@pytest.mark.unmeasured
@pytest.mark.timeout(300)
async def test_a_gibibyte_up_and_down_costs_less_than_64_mib(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with serving() as server:
        client = await dial(server.url)
        before = peak_bytes(server.pid)

        await client.call("fs/open", f'{{"handleId":"h","path":"{path}","mode":"replace"}}')
        await transfer(client, "fs/writeBlock", f'"chunk":"{BLOCK}"')
        await client.call("fs/close", '{"handleId":"h"}')
        assert path.stat().st_size == MIB
        await client.call("fs/open", f'{{"handleId":"h","path":"{path}"}}')
        client.forget()
        await transfer(client, "fs/readBlock", f'"len":{MIB}')

        growth = peak_bytes(server.pid) - before
        client.link.abort()

    assert growth < 64 * MIB


async def test_large_files_asked_for_at_once_are_in_memory_one_after_the_other(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(60 * MIB)
    with serving() as server:
        client = await dial(server.url)
        before = peak_bytes(server.pid)
        for number in range(1, 9):
            client.request(number, "fs/readFile", f'{{"path":"{tmp_path / "file"}"}}')
        for number in range(1, 9):
            await client.answer(number)

        growth = peak_bytes(server.pid) - before
        client.link.abort()

    # One answer of 80 MiB, and what the transport holds of it until the client takes it: not eight.
    assert growth < 3 * 80 * MIB

"""An HTTP server that a test scripts: what it was asked, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field


@dataclass
class Asked:
    """One request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for found, value in self.headers if found == name]


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Origin:
    """A server; `requests` are what it was asked, in order."""

    answer: Answer
    url: str = ""
    requests: list[Asked] = field(default_factory=list)
    connections: int = 0
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    is_left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has gone."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = [
                    (name.lower(), value.strip()) for name, _, value in (h.partition(":") for h in head[1:-2])
                ]
                size = next((int(value) for name, value in headers if name == "content-length"), 0)
                asked = Asked(method, target, headers, await reader.readexactly(size))
                self.requests.append(asked)
                self.is_asked.set()
                await self.answer(asked, writer)
                await writer.drain()
        self.is_left.set()


@asynccontextmanager
async def origin(answer: Answer) -> AsyncIterator[Origin]:
    """A server on a port of its own for the time of the block."""
    made = Origin(answer)
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await made.aclose()


def response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """The bytes of a whole answer."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def say_ok(_asked: Asked, writer: asyncio.StreamWriter) -> None:
    """An answer that says `ok`."""
    writer.write(response(b"ok", "Set-Cookie: a=1", "Set-Cookie: b=2"))

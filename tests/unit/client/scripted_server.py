"""A server that does what a test tells it, at the other end of a real client connection over memory."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from paddock.client.box import Box
from paddock.client.connect import open_box
from paddock.client.connection import Connection
from paddock.client.intake import IntakeLimits
from paddock.transport.link import Link
from paddock.transport.memory import connect_memory

Message = dict[str, Any]

PATIENCE_S = 20.0
"""Generous: only a test that would fail anyway waits that long."""

EVERYTHING = (
    "processCloseStdin",
    "processResize",
    "processSignals",
    "processTerminateGraceful",
    "processSnapshot",
    "processList",
    "processIo",
    "startIdempotency",
    "keepAlive",
)


class ScriptedServer:
    """Keeps what the client sends in order; answers and tells what a test wants."""

    def __init__(self) -> None:
        self.link: Link
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.is_link_closed = asyncio.Event()

    # Receiver

    def message_received(self, message: bytes) -> None:
        self.received.put_nowait(json.loads(message))

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        self.is_link_closed.set()

    # what a test does

    async def next(self, method: str) -> Message:
        """The next message, which must be of this method."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.received.get()
        assert message["method"] == method, message
        return message

    @property
    def has_unread(self) -> bool:
        return not self.received.empty()

    def send(self, message: Message) -> None:
        self.link.send(json.dumps(message).encode())

    def answer(self, request: Message, result: Any) -> None:
        self.send({"id": request["id"], "result": result})

    def refuse(self, request: Message, code: int, text: str) -> None:
        self.send({"id": request["id"], "error": {"code": code, "message": text}})

    def output(self, process_id: str, seq: int, data: bytes, stream: str = "stdout") -> None:
        chunk = base64.b64encode(data).decode()
        params = {"processId": process_id, "seq": seq, "stream": stream, "chunk": chunk}
        self.send({"method": "process/output", "params": params})

    def exited(self, process_id: str, seq: int, exit_code: int = 0) -> None:
        params = {"processId": process_id, "seq": seq, "exitCode": exit_code, "sandboxDenied": False}
        self.send({"method": "process/exited", "params": params})

    def closed(self, process_id: str, seq: int) -> None:
        self.send({"method": "process/closed", "params": {"processId": process_id, "seq": seq}})

    async def start(self, box: Box, process_id: str = "p", **options: Any) -> Any:
        """Have the box start a process and let it succeed."""
        starting = asyncio.create_task(box.start(["program"], process_id=process_id, **options))
        self.started(await self.next("process/start"))
        return await starting

    def started(self, request: Message) -> None:
        self.answer(request, {"processId": request["params"]["processId"], "sandboxType": "none"})


def environment(capabilities: Iterable[str]) -> Message:
    return {
        "shell": {"name": "sh", "path": "/bin/sh"},
        "executorVersion": "1",
        "providerId": "sha256:0",
        "cwd": "file:///srv",
        "userHomeDir": "file:///root",
        "platformOs": "linux",
        "prependPathDirs": [],
        "temporaryDirectories": [],
        "tempDir": "file:///tmp",
        "capabilities": dict.fromkeys(capabilities, True),
    }


@asynccontextmanager
async def scripted(
    capabilities: Iterable[str] = EVERYTHING,
    *,
    request_timeout_s: float | None = None,
    limits: IntakeLimits | None = None,
) -> AsyncIterator[tuple[Box, ScriptedServer]]:
    """A box that has shaken hands with a scripted server. The link is dropped at the end."""
    server = ScriptedServer()
    connection = Connection(request_timeout_s=request_timeout_s, limits=limits)
    server.link, client_link = connect_memory(lambda _: server, connection.attach)
    opening = asyncio.create_task(open_box(connection, "test"))
    greeting = await server.next("initialize")
    server.answer(greeting, {"sessionId": "s", "environmentInfo": environment(capabilities)})
    box = await opening
    await server.next("initialized")
    try:
        yield box, server
    finally:
        client_link.abort()

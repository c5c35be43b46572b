"""A server that does what a test tells it, at the other end of real client connections over memory."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from paddock.client.box import Box
from paddock.client.connection import Connection
from paddock.client.flow_control import FlowLimits
from paddock.client.opening import open_box
from paddock.client.reconnect import ReconnectPolicy
from paddock.errors import ConnectError
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Accept, Link, Received, Receiver
from paddock.transport.memory import connect_memory

Message = dict[str, Any]

PATIENCE_S = 20.0
BRIEF_S = 0.3
"""A time that passes soon, and not before an answer that is given at once, however busy the host is."""
"""Generous: only a test that would fail anyway waits that long."""

AT_ONCE = ReconnectPolicy(max_time_s=PATIENCE_S, min_delay_s=0, max_delay_s=0, attached_delay_s=0)
"""Comes back without delay."""

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
    "orderedWrites",
)


class ScriptedServer:
    """Keeps what the client sends in order; answers and tells what a test wants."""

    def __init__(
        self, capabilities: Iterable[str] = EVERYTHING, limits: TransportLimits | None = None
    ) -> None:
        self.link: Link
        """The server's end of the newest connection."""
        self.client_link: Link
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        self.is_link_closed = asyncio.Event()
        self.is_down = False
        """Whether nobody can connect."""
        self._capabilities = tuple(capabilities)
        self._limits = limits

    async def dial(self, accept: Accept) -> Link:
        """Connect to this server."""
        if self.is_down:
            raise ConnectError("memory", "connection refused")
        self.link, self.client_link = connect_memory(self._accept, accept, self._limits)
        return self.client_link

    def _accept(self, link: Link) -> Receiver:
        self.is_link_closed.clear()
        return self

    # Receiver

    def message_received(self, message: Received) -> None:
        self.received.put_nowait(json.loads(bytes(message)))

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

    async def greet(self, session_id: str = "s") -> Message:
        """Let the next handshake succeed; returns what the client asked for."""
        greeting = await self.next("initialize")
        self.answer(greeting, {"sessionId": session_id, "environmentInfo": environment(self._capabilities)})
        await self.next("initialized")
        params: Message = greeting["params"]
        return params

    async def cut(self) -> None:
        """Lose the connection, and wait until it is gone."""
        self.link.abort()
        await self.is_link_closed.wait()

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


def reading(
    *chunks: tuple[int, bytes], next_seq: int, exit_code: int | None = None, closed: bool = False, **more: Any
) -> Message:
    """The answer to a `process/read`, for chunks of stdout."""
    listed = [
        {"seq": seq, "stream": "stdout", "chunk": base64.b64encode(data).decode()} for seq, data in chunks
    ]
    return {
        "chunks": listed,
        "nextSeq": next_seq,
        "exited": exit_code is not None,
        "exitCode": exit_code,
        "closed": closed,
        "failure": None,
        "sandboxDenied": False,
    } | more


@asynccontextmanager
async def scripted(
    capabilities: Iterable[str] = EVERYTHING,
    *,
    request_timeout_s: float | None = None,
    limits: FlowLimits | None = None,
    policy: ReconnectPolicy | None = None,
) -> AsyncIterator[tuple[Box, ScriptedServer]]:
    """A box that has shaken hands with a scripted server. The link is dropped at the end."""
    server = ScriptedServer(capabilities)
    connection = Connection(request_timeout_s=request_timeout_s, limits=limits)
    opening = asyncio.create_task(open_box(connection, server.dial, client_name="test", policy=policy))
    await server.greet()
    box = await opening
    try:
        yield box, server
    finally:
        server.client_link.abort()
        await box.detach()

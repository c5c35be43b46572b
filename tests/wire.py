"""A client that speaks raw messages to a server in the same program, for tests of the wire itself."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from paddock.config import Settings
from paddock.server.app import Server, serve
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Link, Received
from paddock.transport.memory import connect_memory

Message = dict[str, Any]

ENV = {"PATH": "/usr/bin:/bin"}
EVENTS = ("process/output", "process/exited", "process/closed")


class WireError(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class WireClient:
    """Sends requests, keeps every message in the order of arrival."""

    def __init__(self) -> None:
        self.unread: deque[Message] = deque()
        self.is_closed = False
        self._arrived = asyncio.Event()
        self._next_id = 1
        self.link: Link
        self.server_link: Link
        """The server's end of the same connection."""

    # Receiver

    def message_received(self, message: Received) -> None:
        self.unread.append(json.loads(bytes(message)))
        self._arrived.set()

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        self.is_closed = True
        self._arrived.set()

    # sending

    def send(self, message: Any) -> None:
        self.link.send(json.dumps(message).encode())

    def request(self, method: str, params: Any = None) -> int:
        request_id = self._next_id
        self._next_id += 1
        self.send({"id": request_id, "method": method, "params": params})
        return request_id

    # receiving

    async def take(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message that is wanted; others stay."""
        looked_at = 0
        while True:
            while looked_at < len(self.unread):
                message = self.unread[looked_at]
                if wanted(message):
                    del self.unread[looked_at]
                    return message
                looked_at += 1
            if self.is_closed:
                raise ConnectionError("the server closed the connection")
            self._arrived.clear()
            await self._arrived.wait()

    async def next(self) -> Message:
        return await self.take(lambda _: True)

    async def answer(self, request_id: int) -> Any:
        message = await self.take(lambda found: found.get("id") == request_id and "method" not in found)
        if "error" in message:
            raise WireError(message["error"]["code"], message["error"]["message"])
        return message["result"]

    async def call(self, method: str, params: Any = None) -> Any:
        return await self.answer(self.request(method, params))

    async def closed(self) -> None:
        while not self.is_closed:
            self._arrived.clear()
            await self._arrived.wait()

    # conversations

    async def initialize(self, **params: Any) -> Any:
        result = await self.call("initialize", {"clientName": "test"} | params)
        self.send({"method": "initialized"})
        return result

    async def start(self, process_id: str, *argv: str, **params: Any) -> Any:
        return await self.call("process/start", start_params(process_id, *argv, **params))

    async def event(self, process_id: str, method: str) -> Message:
        def wanted(message: Message) -> bool:
            return message.get("method") == method and message["params"]["processId"] == process_id

        params: Message = (await self.take(wanted))["params"]
        return params

    async def finish(self, process_id: str) -> Finished:
        """Gather the events of a process up to its end; checks that they came in order."""
        finished = Finished()
        while not finished.is_closed:
            message = await self.take(lambda found: _is_event(found, process_id))
            finished.add(message["method"], message["params"])
        return finished


class Finished:
    """What a process did, in the order of its events."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.methods: list[str] = []
        self.streams: dict[str, bytes] = {}
        self.exit_code: int | None = None

    @property
    def is_closed(self) -> bool:
        return bool(self.methods) and self.methods[-1] == "process/closed"

    def add(self, method: str, params: Message) -> None:
        if self.seqs:
            assert params["seq"] == self.seqs[-1] + 1, "events out of order"
        self.seqs.append(params["seq"])
        self.methods.append(method)
        if method == "process/output":
            data = base64.b64decode(params["chunk"])
            self.streams[params["stream"]] = self.streams.get(params["stream"], b"") + data
        elif method == "process/exited":
            self.exit_code = params["exitCode"]


def _is_event(message: Message, process_id: str) -> bool:
    return message.get("method") in EVENTS and message["params"]["processId"] == process_id


def start_params(process_id: str, *argv: str, **params: Any) -> Message:
    base = {"processId": process_id, "argv": list(argv), "cwd": "/", "env": ENV, "tty": False}
    return base | params


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def attach(server: Server, limits: TransportLimits | None = None, *, is_operator: bool = False) -> WireClient:
    """A client of a server in this program, over memory."""
    client = WireClient()
    accept = server.accept_operator if is_operator else server.accept
    client.server_link, client.link = connect_memory(accept, lambda _link: client, limits)
    return client


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[Server]:
    """A server of its own, on a free port."""
    async with serve(Settings(**settings)) as server:
        yield server


@asynccontextmanager
async def session(extensions: bool = True, **settings: Any) -> AsyncIterator[WireClient]:
    """A fresh server and an initialized client."""
    async with served(**settings) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": extensions})
        yield client

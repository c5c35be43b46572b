"""A websocket proxy that hears every message between a client and a server.

It passes frames on unchanged, uses none of the project's code, and can cut the
connection, as a network does: without a word to either side.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Json = dict[str, Any]
End = ClientConnection | ServerConnection

_AS_IT_IS: Any = {"compression": None, "max_size": None, "ping_interval": None}


@dataclass(slots=True)
class Exchange:
    """A request, and its answer once there was one."""

    params: Json
    answer: Json = field(default_factory=dict)

    @property
    def result(self) -> Json:
        """What was answered; KeyError if it was an error."""
        result: Json = self.answer["result"]
        return result


class Tap:
    """Stands before a server for the time of an `async with` block."""

    def __init__(self, target_url: str) -> None:
        self.url: str
        self.connections = 0
        self._target_url = target_url
        self._server: Server
        self._open: set[End] = set()
        self._exchanges: list[tuple[str, Exchange]] = []
        self._notifications: list[tuple[str, Json]] = []

    async def __aenter__(self) -> Tap:
        self._server = await serve(self._carry, "127.0.0.1", 0, **_AS_IT_IS)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"ws://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    def exchanges(self, method: str) -> list[Exchange]:
        """The requests for a method and their answers, in the order of the requests."""
        return [exchange for name, exchange in self._exchanges if name == method]

    def notifications(self, method: str) -> list[Json]:
        """The parameters of the server's notifications."""
        return [params for name, params in self._notifications if name == method]

    def starts(self, text: str) -> list[Exchange]:
        """The starts of commands that contain a text."""
        return [start for start in self.exchanges("process/start") if text in start.params["argv"][-1]]

    def exits(self, text: str) -> list[Json]:
        """The exits of commands that contain a text."""
        ids = {start.params["processId"] for start in self.starts(text)}
        return [exited for exited in self.notifications("process/exited") if exited["processId"] in ids]

    def cut(self) -> None:
        """Break every connection that is open now, towards both sides."""
        for end in self._open:
            end.transport.abort()

    async def _carry(self, client: ServerConnection) -> None:
        self.connections += 1
        assert client.request is not None
        headers = [("Authorization", value) for value in client.request.headers.get_all("Authorization")]
        async with connect(self._target_url, additional_headers=headers, proxy=None, **_AS_IT_IS) as server:
            ends: set[End] = {client, server}
            self._open |= ends
            waiting: dict[int, Exchange] = {}
            await asyncio.gather(
                self._pass_on(client, server, waiting), self._pass_on(server, client, waiting)
            )
            self._open -= ends

    async def _pass_on(self, source: End, target: End, waiting: dict[int, Exchange]) -> None:
        with suppress(ConnectionClosed):
            async for frame in source:
                self._hear(json.loads(frame), waiting)
                await target.send(frame)
        await target.close()

    def _hear(self, message: Json, waiting: dict[int, Exchange]) -> None:
        match message:
            case {"method": method, "id": request_id}:
                exchange = Exchange(message.get("params", {}))
                waiting[request_id] = exchange
                self._exchanges.append((method, exchange))
            case {"method": method}:
                self._notifications.append((method, message.get("params", {})))
            case {"id": request_id}:
                waiting.pop(request_id).answer = message

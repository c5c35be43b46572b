"""Connects two recorders over each medium."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import structs

from paddock.transport import memory, stdio, unix, websocket
from paddock.transport.descriptor import DescriptorTransport
from paddock.transport.limits import TransportLimits, WebSocketLimits
from paddock.transport.lines import LineLink
from paddock.transport.link import Accept
from tests import tls
from tests.unit.transport.recorder import Acceptor, Recorder

Join = Callable[["Meeting", Accept, TransportLimits], Awaitable[None]]


class Meeting:
    """Both ends of one connection; the server's end comes out of `accept`."""

    def __init__(self, acceptor: Acceptor, directory: Path) -> None:
        """Start with nobody connected."""
        self.acceptor = acceptor
        self.directory = directory
        self.resources = AsyncExitStack()

    async def join(
        self, medium: str, limits: TransportLimits | None = None, accept: Accept | None = None
    ) -> tuple[Recorder, Recorder]:
        """Connect and give the (server's, client's) recorder; `limits` hold for both."""
        servers, clients = Acceptor(), self.acceptor
        await _JOINS[medium](self, accept or servers, limits or TransportLimits())
        client = clients.recorders[0]
        if accept is not None:
            return client, client
        server = await servers.arrived()
        clients.recorders.append(server)
        return server, client

    async def aclose(self) -> None:
        """Close the listeners."""
        await self.resources.aclose()


async def _over_websocket(meeting: Meeting, accept: Accept, limits: TransportLimits) -> None:
    ws_limits = WebSocketLimits(**structs.asdict(limits))
    listener = await websocket.listen("127.0.0.1", 0, accept, ws_limits)
    meeting.resources.push_async_callback(listener.aclose)
    client_limits = structs.replace(ws_limits, max_frame_bytes=1 << 30)
    await websocket.connect(listener.url, meeting.acceptor, client_limits)


async def _over_wss(meeting: Meeting, accept: Accept, limits: TransportLimits) -> None:
    ws_limits = WebSocketLimits(**structs.asdict(limits))
    listener = await websocket.listen("127.0.0.1", 0, accept, ws_limits, ssl_context=tls.server_context())
    meeting.resources.push_async_callback(listener.aclose)
    client_limits = structs.replace(ws_limits, max_frame_bytes=1 << 30)
    await websocket.connect(listener.url, meeting.acceptor, client_limits, ssl_context=tls.client_context())


async def _over_unix(meeting: Meeting, accept: Accept, limits: TransportLimits) -> None:
    path = meeting.directory / "socket"
    listener = await unix.listen(path, accept, limits)
    meeting.resources.push_async_callback(listener.aclose)
    await unix.connect(path, meeting.acceptor, limits)


async def _over_socketpair(meeting: Meeting, accept: Accept, limits: TransportLimits) -> None:
    ours, theirs = socket.socketpair()
    try:
        await stdio.connect_socket(ours, meeting.acceptor, limits)
    except BaseException:
        theirs.close()
        raise
    await stdio.connect_socket(theirs, accept, limits)


async def _over_pipes(meeting: Meeting, accept: Accept, limits: TransportLimits) -> None:
    there, back = os.pipe(), os.pipe()
    DescriptorTransport(LineLink(meeting.acceptor, limits, "pipes"), back[0], there[1]).start()
    DescriptorTransport(LineLink(accept, limits, "pipes"), there[0], back[1]).start()


async def _over_memory(meeting: Meeting, accept: Accept, limits: TransportLimits) -> None:
    memory.connect_memory(accept, meeting.acceptor, limits)


_JOINS: dict[str, Join] = {
    "websocket": _over_websocket,
    "wss": _over_wss,
    "unix": _over_unix,
    "socketpair": _over_socketpair,
    "pipes": _over_pipes,
    "memory": _over_memory,
}

MEDIA = tuple(_JOINS)
MEDIA_WITH_OPENER = ("websocket", "wss", "unix", "socketpair", "memory")
MEDIA_WITH_LISTENER = ("websocket", "wss", "unix")

"""A proxy among servers of its own: the addresses are those of documentation, the sockets of the loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address

import pytest

from paddock.network.address import Address
from paddock.network.gateway import Gateway, Secrets, connect_by_system
from paddock.network.judge import PolicyJudge
from paddock.network.policy import Policy, policy_of
from paddock.network.proxy import PolicyProxy
from paddock.network.upstream import Upstream
from paddock.network.wire import Wire
from paddock.network.wire_server import WireServer

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

LOOPBACK = ip_address("127.0.0.1")

GOOD = "192.0.2.1"
"""The address of good.test."""


def request(target: str, host: str = "good.test", *more: str, method: str = "GET") -> bytes:
    """What a client of the proxy asks for, as its only request."""
    lines = (f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *more)
    return "\r\n".join((*lines, "", "")).encode()


def body_of(answer: bytes) -> dict[str, object]:
    """Why the proxy has blocked a request."""
    blocked: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return blocked


def client_hello(name: str | None) -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """Read a request or response up to its body; nothing at the end."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"


class Origin:
    """A web server that remembers what it was asked."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await read_head(reader):
            self.heads.append(head)
            writer.write(ANSWER)
        writer.close()


@dataclass
class Scene:
    """The proxy's surroundings, which a test may change."""

    port: int
    addresses: dict[str, list[str]]
    judge: PolicyJudge
    servers: dict[tuple[str, int], int] = field(default_factory=dict)
    """The port of the loopback that stands for an address and a port."""
    connected: list[str] = field(default_factory=list)
    """The addresses that the proxy has connected to."""
    resolved: list[str] = field(default_factory=list)
    """The names that it has asked for."""
    own: set[Address] = field(default_factory=set)
    """The addresses of this host."""
    _listening: list[asyncio.Server] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.resolved.append(host)
        if host not in self.addresses:
            raise OSError("no such name")
        found = self.addresses[host]
        # Of several answers the first is given once: a name that changes its address.
        answer = found.pop(0) if len(found) > 1 else found[0]
        return list(map(ip_address, answer.split(",")))

    async def connect(self, address: Address, port: int) -> Wire:
        self.connected.append(str(address))
        inner = self.servers.get((str(address), port))
        if inner is None:
            raise ConnectionRefusedError("nobody listens there")
        return await connect_by_system(LOOPBACK, inner)

    async def add_server(
        self, address: str, port: int, serve: Serve, tls: ssl.SSLContext | None = None
    ) -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        self._listening.append(server)
        self.servers[address, port] = server.sockets[0].getsockname()[1]

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the proxy, as a command does."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def say(self, data: bytes) -> bytes:
        """Say something to the proxy, and return all of what comes back until it has closed."""
        reader, writer = await self.open()
        writer.write(data)
        answer = await reader.read()
        writer.close()
        return answer

    def close(self) -> None:
        for server in self._listening:
            server.close()


@asynccontextmanager
async def proxy_scene(
    allow: Sequence[str],
    deny: Sequence[str] = (),
    *,
    policy: Policy | None = None,
    upstream: Upstream | None = None,
    secrets: Secrets | None = None,
    **addresses: str,
) -> AsyncIterator[Scene]:
    """Run a proxy. Names are given with `_` for a dot."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    judge = PolicyJudge([policy or policy_of(allow, deny, allows_local=False)])
    known = {name.replace("_", "."): [address] for name, address in addresses.items()}
    scene = Scene(listener.getsockname()[1], known, judge)
    proxy = PolicyProxy(
        Gateway(
            judge,
            resolve=scene.resolve,
            connect=scene.connect,
            find_own=lambda: scene.own,
            upstream=upstream,
            secrets=secrets,
        )
    )
    server = WireServer()
    await server.listen(listener, proxy.serve)
    try:
        yield scene
    finally:
        await server.aclose()
        scene.close()

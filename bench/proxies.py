"""What the policy proxy costs: bytes through it against a plain relay on the same loop, and a request through
it against a direct one and one through the proxy of srt (@anthropic-ai/sandbox-runtime, by `make srt`). The
peer's proxy has no address to measure it by.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar, cast

import uvloop

from bench.row import Figure, Row, Unit
from bench.servers import Contender
from paddock.network.address import Address
from paddock.network.gateway import Gateway, connect_by_system
from paddock.network.judge import PolicyJudge
from paddock.network.policy import policy_of
from paddock.network.proxy import PolicyProxy
from paddock.network.wire import Wire
from paddock.network.wire_server import WireServer

SRT = Path(__file__).parents[1] / ".srt"
HOST = "bench.test"
ADDRESS = ip_address("192.0.2.1")
LOOPBACK = "127.0.0.1"
BODY_BYTES = 256 << 20
REQUESTS = 300
PIECE = bytes(1 << 18)
CHUNKS = (b"3ff8\r\n" + bytes(0x3FF8) + b"\r\n") * 16
"""As large as a piece."""
LAST_CHUNKS = b"1000\r\n" + bytes(0x1000) + b"\r\n0\r\n\r\n"
"""The proxy may make one chunk of several, and so the whole some bytes shorter."""
SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Proxies(Row):
    """The policy proxy of this version, in a process of its own."""

    name: ClassVar[str] = "proxies"
    figures: ClassVar[tuple[Figure, ...]] = (
        # At least 0.8 times the throughput of the relay.
        Figure("proxy: time of a body through CONNECT, to a plain relay", Unit.TIMES, bound=1.25),
        Figure("proxy: time of a body through SOCKS, to a plain relay", Unit.TIMES, bound=1.25),
        Figure("proxy: time of an HTTP body, to a plain relay", Unit.TIMES, bound=1.25),
        Figure("proxy: time of an HTTP body in chunks, to a plain relay", Unit.TIMES, bound=1.25),
        Figure("proxy: time of an HTTP upload, to a plain relay", Unit.TIMES, bound=1.25),
        Figure("proxy: a small request, to a direct one", Unit.TIMES),
        Figure("proxy: a small request, to srt's proxy", Unit.TIMES),
        Figure("proxy: a small request takes longer by", Unit.SECONDS),
    )

    def __init__(self) -> None:
        self._origin = _serve_origin()
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(self._origin, theirs), daemon=True)
        self._process.start()
        self._relay, self._proxy = ours.recv()
        self._srt = _start_srt()
        self._srt_port = 0
        if self._srt is not None and self._srt.stdout is not None:
            self._srt_port = int(self._srt.stdout.readline())

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name != "paddock":
            return (None,) * len(self.figures)
        relayed = _body_s(self._relay, _get("/large"))
        bodies = [
            _body_s(self._proxy, *opening) for opening in (CONNECT, SOCKS, (_get(f"http://{HOST}/large"),))
        ]
        chunks = _body_s(self._proxy, _get(f"http://{HOST}/chunked")), _body_s(self._relay, _get("/chunked"))
        uploads = _upload_s(self._proxy, f"http://{HOST}/upload"), _upload_s(self._relay, "/upload")
        direct = _requests_s(self._origin, "/small")
        through = _requests_s(self._proxy, f"http://{HOST}/small")
        other = None
        if self._srt is not None:
            other = through / _requests_s(self._srt_port, f"http://{LOOPBACK}:{self._origin}/small")
        return (
            *(body / relayed for body in bodies),
            chunks[0] / chunks[1],
            uploads[0] / uploads[1],
            through / direct,
            other,
            (through - direct) / REQUESTS,
        )

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        if self._srt is not None:
            with self._srt:
                self._srt.kill()


def _start_srt() -> subprocess.Popen[bytes] | None:
    """Run the other proxy, if it is installed; its port is its first line."""
    if not (SRT / "version").exists():
        return None
    script = Path(__file__).with_name("srt_proxy.mjs")
    return subprocess.Popen([SRT / "node", script, SRT, LOOPBACK], stdout=subprocess.PIPE)


def _serve_origin() -> int:
    """Serve `/large`, `/chunked`, `/small` and `/upload`, in threads of this process. Returns the port."""
    listener = socket.create_server((LOOPBACK, 0))

    def answer(client: socket.socket) -> None:
        with client:
            while head := client.recv(4096):
                if b"/small" in head:
                    client.sendall(SMALL)
                    continue
                if b"/upload" in head:
                    _take(client, BODY_BYTES - len(head.partition(b"\r\n\r\n")[2]))
                    client.sendall(SMALL)
                    continue
                piece = CHUNKS if b"/chunked" in head else PIECE
                if piece is CHUNKS:
                    client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                elif not head.startswith(b"\0"):
                    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES)
                for _ in range(BODY_BYTES // len(piece)):
                    client.sendall(piece)
                if piece is CHUNKS:
                    client.sendall(LAST_CHUNKS)

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def _get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


# TLS is what tunnels carry; as anything else that is not HTTP, it is only passed on.
CONNECT = (f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode(), b"\0")
SOCKS = (b"\5\1\0", b"\5\1\0\3" + bytes((len(HOST),)) + HOST.encode() + (443).to_bytes(2), b"\0")


def _body_s(port: int, *said: bytes) -> float:
    """Say something, each time after an answer to what was said before, and time the body that follows."""
    with socket.create_connection((LOOPBACK, port)) as client:
        begun = time.perf_counter()
        for words in said[:-1]:
            client.sendall(words)
            client.recv(4096)
        client.sendall(said[-1])
        _take(client, BODY_BYTES)
        return time.perf_counter() - begun


def _upload_s(port: int, target: str) -> float:
    head = f"PUT {target} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    with socket.create_connection((LOOPBACK, port)) as client:
        begun = time.perf_counter()
        client.sendall(head.encode())
        for _ in range(BODY_BYTES // len(PIECE)):
            client.sendall(PIECE)
        _receive_small(client)
        return time.perf_counter() - begun


def _take(client: socket.socket, left: int) -> None:
    buffer = bytearray(1 << 20)
    while left > 0:
        left -= client.recv_into(buffer) or left


def _receive_small(client: socket.socket) -> None:
    answer = b""
    while not answer.endswith(b"\r\n\r\nok"):
        answer += client.recv(4096)


def _requests_s(port: int, target: str) -> float:
    request = f"GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with socket.create_connection((LOOPBACK, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        for _ in range(REQUESTS):
            client.sendall(request)
            _receive_small(client)
        return time.perf_counter() - begun


class _Relay(asyncio.Protocol):
    """The least that passes bytes on in bounded memory: what comes to one end is written to the other."""

    transport: asyncio.Transport

    def __init__(self, origin: int | None = None, other: _Relay | None = None) -> None:
        self._origin = origin
        self._other = other
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._origin is not None:
            self._connecting = asyncio.ensure_future(self._connect(self._origin))

    async def _connect(self, origin: int) -> None:
        loop = asyncio.get_running_loop()
        _, self._other = await loop.create_connection(lambda: _Relay(other=self), LOOPBACK, origin)
        self._other.transport.write(b"".join(self._early))

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        else:
            self._other.transport.write(data)

    def pause_writing(self) -> None:
        assert self._other is not None
        self._other.transport.pause_reading()

    def resume_writing(self) -> None:
        assert self._other is not None
        self._other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._other is not None:
            self._other.transport.close()


def _serve(origin: int, ready: Connection) -> None:
    async def serve() -> None:
        async def resolve(host: str, port: int) -> Sequence[Address]:
            return [ADDRESS]

        async def connect(address: Address, port: int) -> Wire:
            return await connect_by_system(ip_address(LOOPBACK), origin)

        judge = PolicyJudge([policy_of([HOST], [], allows_local=False)])
        proxy = PolicyProxy(Gateway(judge, resolve=resolve, connect=connect))
        server = WireServer()
        listener = socket.create_server((LOOPBACK, 0))
        await server.listen(listener, proxy.serve)
        loop = asyncio.get_running_loop()
        relay = await loop.create_server(lambda: _Relay(origin), LOOPBACK, 0)
        ready.send((relay.sockets[0].getsockname()[1], listener.getsockname()[1]))
        await asyncio.Event().wait()

    uvloop.run(serve())

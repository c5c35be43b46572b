"""`python -m bench.transports`: what the websocket transport costs, and what libraries would.

The same echo-and-push service stands behind Paddock's own link, bare picows, aiohttp
and websockets, each server in a process of its own on uvloop, and one client measures
all of them in turn. Rounds are short and alternate between the servers, and a ratio is
the median of the ratios within each round, so that what drifts (clock speed, caches,
neighbours) drifts for all. Takes less than half a minute.

Needs the `bench` dependency group. Says nothing about the rest of the server: see
`python -m bench` for that.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import cycle
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    from paddock.transport.link import Link, Received

# 64 KiB of output in base64. Several copies, because how fast the kernel copies from a buffer depends
# on where it happens to lie, and a real server does not send the same buffer again and again.
CHUNKS = [base64.b64encode(os.urandom(64 * 1024)) for _ in range(61)]
CHUNK_BYTES = len(CHUNKS[0])
PUSH = b"push "
CHUNKS_PER_PUSH = 500
ECHO = b'{"id":1234,"method":"process/write","params":{"processId":"p-1","chunk":"bHMgLWxhCg=="}}'

BASIS = "picows"
ROUNDS = 12
ROUND_S = 0.1
STARTS = 5


# ---------------------------------------------------------------- servers


async def serve_paddock() -> None:
    from paddock.transport import websocket

    class Service:
        def __init__(self, link: Link) -> None:
            self._link = link
            self._left = 0
            self._is_paused = False
            self._chunks = cycle(CHUNKS)

        def message_received(self, message: Received) -> None:
            if message[: len(PUSH)] == PUSH:
                self._left += int(message[len(PUSH) :])
                self._push()
            else:
                self._link.send(bytes(message))

        def _push(self) -> None:
            while self._left and not self._is_paused:
                self._left -= 1
                self._link.send(next(self._chunks))

        def writing_paused(self) -> None:
            self._is_paused = True

        def writing_resumed(self) -> None:
            self._is_paused = False
            self._push()

        def link_closed(self, error: Exception | None) -> None:
            self._left = 0

    listener = await websocket.listen("127.0.0.1", 0, Service)
    announce(listener.url)
    await asyncio.Event().wait()


async def serve_picows() -> None:
    import picows

    class Service(picows.WSListener):
        def __init__(self) -> None:
            self._left = 0
            self._is_paused = False
            self._chunks = cycle(CHUNKS)

        def on_ws_connected(self, transport: picows.WSTransport) -> None:
            self._transport = transport
            transport.underlying_transport.set_write_buffer_limits(high=1 << 20)

        def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
            if frame.msg_type != picows.WSMsgType.TEXT:
                return
            message = frame.get_payload_as_bytes()
            if message.startswith(PUSH):
                self._left += int(message[len(PUSH) :])
                self._push()
            else:
                transport.send(picows.WSMsgType.TEXT, message)

        def _push(self) -> None:
            while self._left and not self._is_paused:
                self._left -= 1
                self._transport.send(picows.WSMsgType.TEXT, next(self._chunks))

        def pause_writing(self) -> None:
            self._is_paused = True

        def resume_writing(self) -> None:
            self._is_paused = False
            self._push()

    server = await picows.ws_create_server(lambda request: Service(), "127.0.0.1", 0)
    announce_port(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


async def serve_aiohttp() -> None:
    from aiohttp import WSMsgType, web

    chunks = cycle([chunk.decode() for chunk in CHUNKS])
    push = PUSH.decode()

    async def serve(request: web.BaseRequest) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(compress=False, max_msg_size=0)
        await connection.prepare(request)
        async for message in connection:
            if message.type is not WSMsgType.TEXT:
                continue
            if message.data.startswith(push):
                for _ in range(int(message.data[len(push) :])):
                    await connection.send_str(next(chunks))
            else:
                await connection.send_str(message.data)
        return connection

    server = await asyncio.get_running_loop().create_server(web.Server(serve), "127.0.0.1", 0)
    announce_port(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


async def serve_websockets() -> None:
    from websockets.asyncio.server import ServerConnection, serve

    chunks = cycle(CHUNKS)

    async def handle(connection: ServerConnection) -> None:
        # text=True with bytes sends a text frame without decoding it first.
        while True:
            message = await connection.recv(decode=False)
            if message.startswith(PUSH):
                for _ in range(int(message[len(PUSH) :])):
                    await connection.send(next(chunks), text=True)
            else:
                await connection.send(message, text=True)

    server = await serve(handle, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None)
    announce_port(next(iter(server.sockets)).getsockname()[1])
    await asyncio.Event().wait()


async def serve_nothing() -> None:
    """Listen on a plain socket: what Python, uvloop and this file cost by themselves."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    announce_port(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


SERVERS: dict[str, Callable[[], Awaitable[None]]] = {
    "paddock": serve_paddock,
    "picows": serve_picows,
    "aiohttp": serve_aiohttp,
    "websockets": serve_websockets,
}


def announce(url: str) -> None:
    print(url, flush=True)


def announce_port(port: int) -> None:
    announce(f"ws://127.0.0.1:{port}")


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.transports", "--serve", name], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.start_s = time.perf_counter() - began
        if not self.url:
            raise SystemExit(f"the {name} server did not start")
        # The clock of another process's CPU time (clock_getcpuclockid(3)), which counts nanoseconds
        # where /proc counts ticks.
        self._cpu_clock = (~self._process.pid << 3) | 2

    @property
    def cpu_s(self) -> float:
        return time.clock_gettime(self._cpu_clock)

    def close(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


# ---------------------------------------------------------------- client


class Meter:
    """One connection that counts answers."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._count = 0
        self._target = 0
        self._in_flight = 0
        self._done = asyncio.Event()

    def message_received(self, message: Received) -> None:
        self._count += 1
        if self._count == self._target:
            self._done.set()
        elif self._count + self._in_flight <= self._target:
            self._link.send(ECHO)

    def writing_paused(self) -> None: ...
    def writing_resumed(self) -> None: ...
    def link_closed(self, error: Exception | None) -> None: ...

    async def _answers(self, count: int, in_flight: int, *requests: bytes) -> float:
        """Send the requests, keep so many in flight, and give the time until the last answer."""
        self._count, self._target, self._in_flight = 0, count, in_flight
        self._done.clear()
        began = time.perf_counter()
        for request in requests:
            self._link.send(request)
        await self._done.wait()
        return time.perf_counter() - began

    async def round_trips(self, in_flight: int) -> tuple[float, float]:
        """Give the number of round trips and the time they took."""
        count = 200
        while True:
            elapsed = await self._answers(count, in_flight, *[ECHO] * in_flight)
            if elapsed >= ROUND_S / 2:
                return count, elapsed
            count = max(count * 2, int(count / elapsed * ROUND_S))

    async def push(self) -> tuple[float, float]:
        """Give the megabytes from server to client and the time they took."""
        elapsed, pushes = 0.0, 0
        while elapsed < ROUND_S:
            # No answer is answered here: nothing may be in flight from the client.
            elapsed += await self._answers(CHUNKS_PER_PUSH, CHUNKS_PER_PUSH, PUSH + b"%d" % CHUNKS_PER_PUSH)
            pushes += 1
        return pushes * CHUNKS_PER_PUSH * CHUNK_BYTES / 1e6, elapsed


Take = Callable[[Meter], Awaitable[tuple[float, float]]]

MEASURES: dict[tuple[str, str], Take] = {
    ("round trips/s, 1 in flight", "round trip, 1 in flight"): lambda meter: meter.round_trips(1),
    ("round trips/s, 32 in flight", "round trip, 32 in flight"): lambda meter: meter.round_trips(32),
    ("MB/s to the client", "MB to the client"): lambda meter: meter.push(),
}

Figures = dict[str, dict[str, list[float]]]
"""What was measured, by label, by server, by round."""


async def measure(servers: dict[str, Server]) -> Figures:
    """Take every measure of every server, round by round."""
    from paddock.transport import websocket

    meters: dict[str, Meter] = {}
    for name, server in servers.items():

        def accept(link: Link, name: str = name) -> Meter:
            meters[name] = Meter(link)
            return meters[name]

        await websocket.connect(server.url, accept)
    figures: Figures = {}
    order = deque(meters.items())
    for _ in range(ROUNDS):
        # Whoever comes first pays for waking the processor up, so everybody does in turn.
        order.rotate()
        for (rate, unit), take in MEASURES.items():
            for name, meter in order:
                cpu_s = servers[name].cpu_s
                amount, elapsed = await take(meter)
                cost = (servers[name].cpu_s - cpu_s) * 1e6
                figures.setdefault(rate, {}).setdefault(name, []).append(amount / elapsed)
                figures.setdefault(f"server CPU us per {unit}", {}).setdefault(name, []).append(cost / amount)
    return figures


def start_times() -> dict[str, list[float]]:
    """Give milliseconds from fork to listening, for each server and for one without a websocket library."""
    samples: dict[str, list[float]] = {name: [] for name in ("nothing", *SERVERS)}
    for _ in range(STARTS):
        for name, values in samples.items():
            server = Server(name)
            server.close()
            values.append(server.start_s * 1000)
    return samples


# ---------------------------------------------------------------- report


def table(figures: Figures) -> str:
    """Lay medians out in Markdown, each with its ratio to bare picows."""
    names = list(SERVERS)
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for label, rounds in figures.items():
        cells = []
        for name in names:
            ratio = statistics.median(
                value / basis for value, basis in zip(rounds[name], rounds[BASIS], strict=True)
            )
            cells.append(f"{statistics.median(rounds[name]):,.0f} (x{ratio:.2f})")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description="Compare websocket libraries behind one service.")
    options.add_argument("--serve", choices=["nothing", *SERVERS], help=argparse.SUPPRESS)
    serve = options.parse_args().serve
    if serve is not None:
        uvloop.run({**SERVERS, "nothing": serve_nothing}[serve]())  # type: ignore[arg-type]
        return
    servers = {name: Server(name) for name in SERVERS}
    try:
        figures = uvloop.run(measure(servers))
    finally:
        for server in servers.values():
            server.close()
    figures["start to listening, ms"] = starts = start_times()
    print(table(figures))
    floor = statistics.median(starts["nothing"])
    print("\nMedians; in brackets the ratio to bare picows.")
    print(f"Of each start, {floor:.0f} ms are Python and uvloop.")


if __name__ == "__main__":
    main()

"""A TCP proxy that breaks its connections at random bytes, the same ones for the same seed.

Each connection is given a direction, an offset and a manner when it is accepted. When so
many bytes have passed in that direction, the rest is withheld and both sides are closed:
with a FIN, behind everything that was passed on, or with a reset, which may overtake it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import Final, cast
from urllib.parse import urlsplit

# struct linger: on, 0 seconds. close(2) then sends a reset (socket(7), SO_LINGER).
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where and how a connection will break."""

    is_upstream: bool
    offset_bytes: int
    is_reset: bool


class CuttingProxy:
    """Listens on a port of its own for the time of an `async with` block.

    It breaks `limit` connections, once `is_cutting` is set, and no more.
    """

    def __init__(
        self, target_url: str, *, seed: int = 0, limit: int = 0, longest_bytes: int = 1 << 20
    ) -> None:
        target = urlsplit(target_url)
        assert target.hostname is not None
        assert target.port is not None
        self.url: str
        self.cuts = 0
        self.passed_bytes = 0
        self.finished = asyncio.Event()
        """Set when the last connection was broken."""
        self.is_cutting = False
        self._target = target.hostname, target.port
        self._random = Random(seed)
        self._limit = limit
        self._longest_bytes = longest_bytes
        self._server: asyncio.Server
        self._pairs: set[Pair] = set()

    async def __aenter__(self) -> CuttingProxy:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self.make_pair().client, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"ws://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.break_all()

    def refuse(self) -> None:
        """Let nobody connect any more."""
        self._server.close()

    def freeze_all(self) -> None:
        """Let everything vanish on the connections that are open now, as if a cable were pulled."""
        for pair in self._pairs:
            pair.is_frozen = True

    def hang_up_all(self) -> None:
        """Freeze the connections that are open now, and let the server alone know that they are gone."""
        self.freeze_all()
        for pair in list(self._pairs):
            pair.server.close(is_reset=True)

    def break_all(self) -> None:
        """Reset every connection that is open now."""
        for pair in list(self._pairs):
            pair.drop()

    # --- for the pairs ------------------------------------------------------

    def make_pair(self) -> Pair:
        return Pair(self)

    async def dial(self, end: asyncio.Protocol) -> None:
        await asyncio.get_running_loop().create_connection(lambda: end, *self._target)

    def plan(self) -> Cut:
        # Most offsets are small, so that handshakes break too, and some let whole messages pass.
        offset = int(exp(self._random.uniform(0, log(self._longest_bytes))))
        return Cut(self._random.random() < 0.5, offset, self._random.random() < 0.5)

    def opened(self, pair: Pair) -> None:
        self._pairs.add(pair)

    def closed(self, pair: Pair) -> None:
        self._pairs.discard(pair)

    def may_cut(self) -> bool:
        return self.is_cutting and self.cuts < self._limit

    def has_cut(self) -> None:
        self.cuts += 1
        if self.cuts == self._limit:
            self.finished.set()


class Pair:
    """One connection: the client's end and the server's."""

    def __init__(self, proxy: CuttingProxy) -> None:
        self.proxy = proxy
        self.client = End(self, is_client=True)
        self.server = End(self, is_client=False)
        self.is_frozen = False
        self._cut = proxy.plan()
        self._passed = {True: 0, False: 0}
        self._dialling: asyncio.Task[None] | None = None

    def accepted(self) -> None:
        self.proxy.opened(self)
        loop = asyncio.get_running_loop()
        # Nothing is read before there is somebody to pass it on to. Not at once: in older versions asyncio
        # begins to read after this call, whatever it was told in it.
        loop.call_soon(self.client.stream.pause_reading)
        self._dialling = loop.create_task(self._dial())

    async def _dial(self) -> None:
        try:
            await self.proxy.dial(self.server)
        except OSError:
            self.drop()
        else:
            self.client.stream.resume_reading()

    def arrived(self, data: bytes, source: End) -> None:
        is_upstream = source is self.client
        target = self.server if is_upstream else self.client
        before = self._passed[is_upstream]
        self._passed[is_upstream] += len(data)
        is_due = is_upstream == self._cut.is_upstream and self._passed[is_upstream] >= self._cut.offset_bytes
        if is_due and self.proxy.may_cut():
            data = data[: max(0, self._cut.offset_bytes - before)]
        else:
            is_due = False
        self.proxy.passed_bytes += len(data)
        target.stream.write(data)
        if is_due:
            self.proxy.has_cut()
            for end in (self.server, self.client):
                end.close(is_reset=self._cut.is_reset)

    def ended(self, source: End) -> None:
        if self.is_frozen and source is self.server:
            return
        self.proxy.closed(self)
        for end in (self.server, self.client):
            end.close(is_reset=False)

    def drop(self) -> None:
        for end in (self.server, self.client):
            end.close(is_reset=True)


class End(asyncio.Protocol):
    """One of the two sockets."""

    def __init__(self, pair: Pair, *, is_client: bool) -> None:
        self._pair = pair
        self._is_client = is_client
        self._is_closing = False
        self.stream: asyncio.Transport

    @property
    def _other(self) -> End:
        return self._pair.server if self._is_client else self._pair.client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.stream = cast(asyncio.Transport, transport)
        if self._is_client:
            self._pair.accepted()

    def data_received(self, data: bytes) -> None:
        if not self._is_closing and not self._pair.is_frozen:
            self._pair.arrived(data, self)

    def eof_received(self) -> bool:
        self._pair.ended(self)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._pair.ended(self)

    def pause_writing(self) -> None:
        self._other.stream.pause_reading()

    def resume_writing(self) -> None:
        if not self._other._is_closing:
            self._other.stream.resume_reading()

    def close(self, *, is_reset: bool) -> None:
        if self._is_closing or not hasattr(self, "stream"):
            return
        self._is_closing = True
        if is_reset:
            sock = self.stream.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.stream.abort()
        else:
            self.stream.close()

"""Accepts the peers of one listening socket, and shakes hands with those that speak TLS.

Until they have said what they want, peers are strangers: `PendingHandshakes` bounds their number, and this
module the time of a TLS handshake, and what all handshakes together take of a turn of the loop. What bounds
the time of the rest is the protocol that each of them gets.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, cast

from paddock.transport.input_turns import InputTurns
from paddock.transport.listener import BACKLOG, ListeningSocket
from paddock.transport.pending_handshakes import PendingHandshakes
from paddock.transport.record_gate import RecordGate

ADMITTED_PER_TURN: Final = 16
"""Peers that one turn of the loop accepts: with TLS, each takes a tenth of a millisecond before it says
anything. The others wait in the queue of the kernel."""


class Arriving(Protocol):
    """The protocol of one peer."""

    is_connected: bool
    """Whether there was ever a connection: with TLS, whether its handshake has been completed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""


MakeArriving: TypeAlias = Callable[[Callable[[], None]], Arriving]
"""Makes the protocol of a peer, which calls back when the peer has said what it wants, or has left."""


class Arrivals:
    """The peers that arrive at one socket, until they have said what they want."""

    def __init__(
        self, make: MakeArriving, *, limit: int, handshake_timeout_s: float, shutdown_timeout_s: float
    ) -> None:
        self._make = make
        self._handshake_timeout_s = handshake_timeout_s
        self._shutdown_timeout_s = shutdown_timeout_s
        self._handshakes = PendingHandshakes(limit)
        self._loop = asyncio.get_running_loop()
        self._socket: ListeningSocket | None = None
        self._context: ssl.SSLContext | None = None
        self._turns = InputTurns()
        """The turns for the records of TLS. What the records hold has turns of its own."""
        self._strangers = self._turns.common_share()
        """The share of all that are in a handshake."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, sock: ListeningSocket, context: ssl.SSLContext | None) -> None:
        """Listen on a socket that is bound, and own it. Raises OSError."""
        self._context = context
        sock.listen(BACKLOG)
        self._socket = sock
        # Not the loop's own server: it accepts past this socket object.
        self._loop.add_reader(sock.fileno(), self._admit)

    def encrypt_with(self, context: ssl.SSLContext) -> None:
        """Shake hands with further peers by this context."""
        self._context = context

    def close(self) -> None:
        """Accept no more peers. Idempotent."""
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.remove_reader(sock.fileno())
            sock.close()

    async def aclose(self) -> None:
        """Accept no more peers, and drop those that have not said what they want. Idempotent."""
        self.close()
        await self._handshakes.aclose()
        await asyncio.gather(*self._tasks)

    def _admit(self) -> None:
        for _ in range(ADMITTED_PER_TURN):
            if self._socket is None:
                return
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            sock.setblocking(False)
            self._handshakes.begin(sock)
            task = self._loop.create_task(self._receive(sock))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _receive(self, sock: socket.socket) -> None:
        over = partial(self._handshakes.end, sock)
        arriving = self._make(over)
        # A fault in the TLS handshake of a stranger is no fault of ours.
        with contextlib.suppress(OSError):
            if self._context is None:
                await self._loop.connect_accepted_socket(lambda: cast(asyncio.Protocol, arriving), sock)
            else:
                await self._encrypt(sock, arriving, self._context)
        if not arriving.is_connected:
            over()

    async def _encrypt(self, sock: socket.socket, arriving: Arriving, context: ssl.SSLContext) -> None:
        """Do as `connect_accepted_socket` with TLS, a few records at a time. Raises OSError."""
        is_over = self._loop.create_future()
        # asyncio's own limits are 60 s and 30 s, which a peer that says nothing would get.
        tls = SSLProtocol(
            self._loop,
            cast(asyncio.Protocol, arriving),
            context,
            is_over,
            server_side=True,
            # The stubs of the standard library want whole seconds.
            ssl_handshake_timeout=cast(int, self._handshake_timeout_s),
            ssl_shutdown_timeout=cast(int, self._shutdown_timeout_s),
        )
        gate = RecordGate(tls, lambda: arriving.is_connected, self._turns.share(), self._strangers)
        await self._loop.connect_accepted_socket(lambda: gate, sock)
        await is_over

"""Two linked ends inside one event loop, for tests and for embedding a server.

Behaves like a socket where it matters: a message arrives in a later turn of the loop,
in order; a reader that pauses makes the writer's queue grow until `writing_paused`;
`close` delivers what is queued and `abort` does not. No byte is encoded.
"""

from __future__ import annotations

import asyncio
from collections import deque

from paddock.errors import ConnectionLost, MessageTooLarge
from paddock.transport.delivery import MESSAGES_PER_TURN, CloseTimeout, Delivery, Introduction
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Accept, Link


def connect_memory(
    accept: Accept, receiver_factory: Accept, limits: TransportLimits | None = None
) -> tuple[Link, Link]:
    """Make both ends of a connection and return them as (server's, client's).

    `accept` makes the receiver of the server's end and is called first. Raises what either
    factory raises.
    """
    limits = limits or TransportLimits()
    server, client = MemoryLink("memory client", limits), MemoryLink("memory server", limits)
    server.join(client)
    client.join(server)
    for link, factory in ((server, accept), (client, receiver_factory)):
        introduction = Introduction(factory)
        link.attach(introduction)
        introduction.confirm(link)
    return server, client


class MemoryLink(Link):
    """One end. Its queue holds messages that it has sent and the other end has not taken."""

    def __init__(self, peer: str, limits: TransportLimits) -> None:
        self.peer = peer
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._other: MemoryLink
        self._delivery = Delivery(self, reopen=self._reopen)
        self._close_timeout = CloseTimeout(self, limits.close_timeout_s)
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_writing_paused = False
        self._is_pumping = False
        self._is_gone = False

    # ------------------------------------------------------------------ for the owner

    @property
    def buffered_bytes(self) -> int:
        """See `Link`."""
        return self._queued_bytes

    def send(self, message: bytes | bytearray) -> None:
        """See `Link`."""
        if not self._delivery.is_open:
            return
        self._queue.append(bytes(message))
        self._queued_bytes += len(message)
        self.pump_soon()
        if self._queued_bytes > self._limits.write_high_water_bytes and not self._is_writing_paused:
            self._is_writing_paused = True
            self._delivery.writing_paused()

    def pause_reading(self) -> None:
        """See `Link`."""
        self._delivery.pause()

    def resume_reading(self) -> None:
        """See `Link`."""
        self._delivery.resume()

    def close(self) -> None:
        """See `Link`."""
        if self._delivery.is_open:
            self._delivery.stop()
            self._close_timeout.begin()
            self.pump_soon()

    def abort(self) -> None:
        """See `Link`."""
        self._delivery.stop()
        self._part(ConnectionLost(f"{self._other.peer} dropped the connection"))

    # ------------------------------------------------------------------ for the other end

    def join(self, other: MemoryLink) -> None:
        """Learn who is at the other end. Must precede everything else."""
        self._other = other

    def attach(self, accept: Accept) -> None:
        """Make the receiver."""
        self._delivery.attach(accept)

    @property
    def is_taking(self) -> bool:
        """Return whether a message may come now. An end that is closing takes messages and forgets them."""
        return not (self._delivery.is_open and self._delivery.is_paused)

    def take(self, message: bytes) -> None:
        """Receive one message from the other end."""
        if len(message) > self._limits.max_message_bytes:
            self._delivery.fail(MessageTooLarge(self._limits.max_message_bytes))
        else:
            self._delivery.deliver((message,))

    def pump_soon(self) -> None:
        """Pass on what is queued in a later turn of the loop, once however often this is called."""
        if not self._is_pumping:
            self._is_pumping = True
            self._loop.call_soon(self._pump)

    def finish(self, error: Exception | None) -> None:
        """Make the last call to the receiver. An end that was closing does not care how it ended."""
        self._close_timeout.end()
        self._queue.clear()
        self._queued_bytes = 0
        self._delivery.finish(error if self._delivery.is_open else None)

    # ------------------------------------------------------------------ inside

    def _reopen(self) -> None:
        self._other.pump_soon()

    def _pump(self) -> None:
        self._is_pumping = False
        for _ in range(MESSAGES_PER_TURN):
            if not self._queue or not self._other.is_taking:
                break
            message = self._queue.popleft()
            self._queued_bytes -= len(message)
            self._other.take(message)
        if self._queue and self._other.is_taking:
            self.pump_soon()
        if self._is_writing_paused and self._queued_bytes <= self._limits.write_low_water_bytes:
            self._is_writing_paused = False
            self._delivery.writing_resumed()
        if not self._queue and not self._delivery.is_open:
            self._part(None)

    def _part(self, reason_for_other: Exception | None) -> None:
        """End both sides in a later turn of the loop, this one first."""
        if not self._is_gone:
            self._is_gone = True
            self._loop.call_soon(self.finish, None)
            self._loop.call_soon(self._other.finish, reason_for_other)

"""Resets that a transport would not notice by itself.

When a reset comes in one event with bytes before it, libuv reports that event and then watches the
descriptor no more (uv__poll_io, POLLERR). A transport that has read the bytes waits for a further event, and
nobody ever sees the reset. So sockets are watched a second time, for nothing but errors, and their
transports made to read on until they meet the error themselves: what came before it is not lost. All this
is below TLS, above which a part of a record is no event at all.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Final

_EVENTS_PER_TURN: Final = 64
"""Resets told in one turn of the loop; the others follow in the next."""

_LAST_READS: Final = 4096
"""Reads after which a reset must have been met: a full receive buffer, 6 MiB (tcp(7), tcp_rmem), in pieces
smaller than any buffer here."""

_BETWEEN_READS_S: Final = 0.001
"""Time for the read itself: in the same turn of the loop, to watch a descriptor again would call it off."""


class ResetWatch:
    """Tells when a connection was reset, once for each. `close` must follow."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        self._loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, sock: socket.socket, told: Callable[[], None]) -> None:
        """Have `told` called when a connection is reset, also if it was before. `remove` must follow."""
        self._told[sock.fileno()] = told
        # Errors are told in any case (epoll_ctl(2)); once, and not as long as they last.
        self._epoll.register(sock.fileno(), select.EPOLLET)

    def tell(self, descriptor: int, told: Callable[[], None]) -> None:
        """Tell somebody else from now on."""
        if descriptor in self._told:
            self._told[descriptor] = told

    def remove(self, descriptor: int) -> None:
        """Forget a connection, before its descriptor is closed. Ignored if it is not known."""
        if self._told.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Forget all. Idempotent."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._told.clear()

    def _look(self) -> None:
        for descriptor, events in self._epoll.poll(0, _EVENTS_PER_TURN):
            told = self._told.get(descriptor)
            if told is not None and events & select.EPOLLERR:
                told()


class LastReads:
    """Has a transport read on after a reset, until it meets the error, as long as `may_read` allows it."""

    def __init__(self, stream: asyncio.Transport, may_read: Callable[[], bool]) -> None:
        self._stream = stream
        self._may_read = may_read
        self._left = _LAST_READS
        self._is_due = False
        self._is_scheduled = False

    def begin(self) -> None:
        """Learn of the reset."""
        self._is_due = True
        self.go_on()

    def go_on(self) -> None:
        """Read on, if there was a reset: `may_read` may be true again."""
        if self._is_due and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(_BETWEEN_READS_S, self._read)

    def _read(self) -> None:
        self._is_scheduled = False
        if self._stream.is_closing() or not self._may_read():
            return
        self._left -= 1
        if not self._left:
            self._stream.abort()
            return
        # Has the loop watch the descriptor again.
        self._stream.pause_reading()
        self._stream.resume_reading()
        self.go_on()

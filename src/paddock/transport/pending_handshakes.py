"""Peers that have connected and not yet become a link.

They are strangers: nothing is known of them, and they may never say anything. There is
room for a limited number, and whoever has been at it longest makes room for the next, so
that those who only hold connections open do not keep out those who are quick. What a
handshake consists of is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket


class PendingHandshakes:
    """The unfinished handshakes of one listener, oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[socket.socket, None] = {}
        self._dropped: set[socket.socket] = set()
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    def begin(self, sock: socket.socket) -> None:
        """Count a peer in; if there is no room, the oldest is dropped."""
        if len(self._pending) >= self._limit:
            self._drop_oldest()
        self._pending[sock] = None
        self._all_gone.clear()

    def end(self, sock: socket.socket) -> None:
        """Count a peer out: it has become a link, or is gone. Ignored if it was counted out before."""
        self._pending.pop(sock, None)
        self._dropped.discard(sock)
        if not self._pending and not self._dropped:
            self._all_gone.set()

    async def aclose(self) -> None:
        """Drop everybody and wait until they are gone. No more may begin."""
        while self._pending:
            self._drop_oldest()
        await self._all_gone.wait()

    def _drop_oldest(self) -> None:
        sock = next(iter(self._pending))
        del self._pending[sock]
        self._dropped.add(sock)
        # Not close: the socket belongs to a transport, which closes it when it reads the end.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

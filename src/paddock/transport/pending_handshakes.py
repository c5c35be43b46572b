"""Peers that have connected and not yet become a link.

They are strangers, and may never send anything. There is room for a limited number, and the
oldest makes room for the next, so that peers that only hold connections open do not keep out
quick ones. This module does not know the content of a handshake.
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
        """Count a peer in; if there is no room, drop the oldest."""
        if len(self._pending) >= self._limit:
            self._drop_oldest()
        self._pending[sock] = None
        self._all_gone.clear()

    def end(self, sock: socket.socket) -> None:
        """Count a peer out: it has become a link, or has left. Does nothing if it was counted out before."""
        self._pending.pop(sock, None)
        self._dropped.discard(sock)
        if not self._pending and not self._dropped:
            self._all_gone.set()

    async def aclose(self) -> None:
        """Drop all peers and wait until they have ended. No more may begin."""
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

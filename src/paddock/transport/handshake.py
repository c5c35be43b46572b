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
from collections.abc import Callable
from functools import partial
from typing import Any

from paddock.transport.listener import DoorSocket
from paddock.transport.reset_watch import ResetWatch


def ignore_hang_ups(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle the faults of a loop on which TLS is spoken, as the default handler does, but for one.

    A peer that hangs up in the middle of the TLS handshake is no fault, but aiofastnet reports it
    as one, and with a class in place of an exception, at which the default handler fails. A
    server's loop gets this from whoever owns it, a client's from `websocket.connect`.
    """
    if context.get("exception") is not ConnectionResetError:
        loop.default_exception_handler(context)


class Handshakes:
    """The unfinished handshakes of one listener, oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending: dict[int, socket.socket] = {}
        self._dropped: set[int] = set()
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    def begin(self, sock: socket.socket) -> None:
        """Count a peer in; if there is no room, the oldest is dropped."""
        if len(self._pending) >= self._limit:
            self._drop_oldest()
        self._pending[sock.fileno()] = sock
        self._all_gone.clear()

    def end(self, fd: int) -> None:
        """Count a peer out: it has become a link, or is gone. Ignored if it was counted out before."""
        self._pending.pop(fd, None)
        self._dropped.discard(fd)
        if not self._pending and not self._dropped:
            self._all_gone.set()

    async def aclose(self) -> None:
        """Drop everybody and wait until they are gone. No more may begin."""
        while self._pending:
            self._drop_oldest()
        await self._all_gone.wait()

    def _drop_oldest(self) -> None:
        fd, sock = next(iter(self._pending.items()))
        del self._pending[fd]
        self._dropped.add(fd)
        # Not close: the socket belongs to a transport, which closes it when it reads the end.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


class HandshakeDoor(DoorSocket):
    """A listening socket whose peers are counted until they are closed, or their handshake ends."""

    handshakes: Handshakes
    """Must be set before anybody is accepted."""

    resets: ResetWatch
    """Must be set before, too."""

    hang_up: Callable[[socket.socket], None]
    """Drops the transport of a socket, whose peer has reset the connection during its handshake."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept, and count the peer in."""
        plain, address = super().accept()
        guest = _GuestSocket(plain.family, plain.type, plain.proto, plain.detach())
        guest.handshakes = self.handshakes
        guest.resets = self.resets
        self.handshakes.begin(guest)
        self.resets.add(guest, partial(self.hang_up, guest))
        return guest, address


class _GuestSocket(socket.socket):
    handshakes: Handshakes
    resets: ResetWatch

    def close(self) -> None:
        """Count the peer out before its descriptor can be that of another."""
        self.handshakes.end(self.fileno())
        self.resets.remove(self.fileno())
        super().close()

"""Listeners, and the connections that come in by them: each in a task that ends with the server."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from paddock.journal import Journal
from paddock.network.turn import Turns
from paddock.network.wire import Wire

journal = Journal(logging.getLogger(__name__))

CONNECTIONS_LIMIT: Final = 1024
"""Of one command at one time; more wait to be accepted. Each has two descriptors and at most 2 MiB."""

BACKLOG: Final = 1024

SHORTAGE_PAUSE_S: Final = 1.0
"""Before the next attempt to accept a connection for which there was no descriptor or memory: no event tells
that there is one again."""

CLOSED_PER_TURN: Final = 32
"""Connections whose tasks are ended in one turn of the loop: some milliseconds."""

CLOSE_TIMEOUT_S: Final = 5.0
"""How long tasks that were cancelled may take to end."""

Serve = Callable[[Wire], Awaitable[None]]
"""Serves one connection to its end. It is closed afterwards in any case."""


class WireServer:
    """Serves what connects. `listen`, and `aclose` it in the end.

    Servers of one loop share its `turns`.
    """

    def __init__(self, turns: Turns | None = None) -> None:
        self._share = (turns or Turns()).share()
        self._slots = asyncio.Semaphore(CONNECTIONS_LIMIT)
        self._accepting: set[asyncio.Task[None]] = set()
        self._clients: dict[asyncio.Task[None], Wire] = {}

    async def listen(self, listener: socket.socket, serve: Serve) -> None:
        """Serve a listener from now on. It is the server's, and may be of another network namespace."""
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._accepting.add(asyncio.get_running_loop().create_task(self._accept(listener, serve)))

    async def aclose(self) -> None:
        """End every connection at once, and listen no more. Bounded."""
        for task in self._accepting:
            task.cancel()
        if self._accepting:
            await asyncio.wait(self._accepting, timeout=CLOSE_TIMEOUT_S)
        for count, (client, wire) in enumerate(tuple(self._clients.items()), 1):
            wire.abort()
            client.cancel()
            if count % CLOSED_PER_TURN == 0:
                await asyncio.sleep(0)
        if self._clients:
            await asyncio.wait(self._clients, timeout=CLOSE_TIMEOUT_S)

    async def _accept(self, listener: socket.socket, serve: Serve) -> None:
        """Accept one connection in a turn; the loop's own servers would accept the whole backlog."""
        with listener:
            while True:
                await self._slots.acquire()
                await self._share.take()
                try:
                    await self._accept_one(listener, serve)
                except OSError as error:
                    self._slots.release()
                    if not isinstance(error, BlockingIOError | ConnectionError):
                        journal.warning("a connection to the proxy waits", reason=str(error))
                        await asyncio.sleep(SHORTAGE_PAUSE_S)

    async def _accept_one(self, listener: socket.socket, serve: Serve) -> None:
        loop = asyncio.get_running_loop()
        await _readable(listener)
        raw, _ = listener.accept()
        raw.setblocking(False)
        try:
            _, wire = await loop.connect_accepted_socket(partial(Wire, self._share), raw)
        except BaseException:
            raw.close()
            raise
        task = loop.create_task(_served(serve, wire))
        self._clients[task] = wire
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        wire = self._clients.pop(task)
        self._slots.release()
        wire.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            wire.abort()
            journal.error("a connection through the proxy failed", error=error)


async def _readable(listener: socket.socket) -> None:
    """Wait for somebody who connects. `sock_accept` would lose a connection when it is cancelled."""
    loop = asyncio.get_running_loop()
    has_client = asyncio.Event()
    loop.add_reader(listener, has_client.set)
    try:
        await has_client.wait()
    finally:
        loop.remove_reader(listener)


async def _served(serve: Serve, wire: Wire) -> None:
    await serve(wire)

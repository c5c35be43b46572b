"""Handles one request at a time for each client, so that no client waits behind another's many."""

from __future__ import annotations

import asyncio


class ClientTurns:
    """Gives each client one turn at a time, in the order of asking. It remembers only clients that ask."""

    def __init__(self) -> None:
        self._locks: dict[int, asyncio.Lock] = {}
        self._asking: dict[int, int] = {}

    async def take(self, client: int) -> None:
        """Wait for a turn of this client. `give_back` must follow, unless this raises."""
        self._asking[client] = self._asking.get(client, 0) + 1
        try:
            await self._locks.setdefault(client, asyncio.Lock()).acquire()
        except BaseException:
            self._leave(client)
            raise

    def give_back(self, client: int) -> None:
        """Let the next request of this client have its turn."""
        self._locks[client].release()
        self._leave(client)

    def _leave(self, client: int) -> None:
        self._asking[client] -= 1
        if not self._asking[client]:
            del self._asking[client], self._locks[client]

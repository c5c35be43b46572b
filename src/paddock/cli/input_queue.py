"""Input on its way to a process that may not read it: bounded, from one giver to one taker."""

from __future__ import annotations

import asyncio


class InputQueue:
    """Bytes in order. `end` follows the last of them."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self._is_ended = False
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def offer(self, data: bytes) -> bool:
        """Take the data if there is room for all of it, and return whether there was."""
        if len(self._data) + len(data) > self._limit_bytes:
            return False
        self._append(data)
        return True

    async def put(self, data: bytes) -> None:
        """Wait until there is less than the limit, then take the data."""
        await self._has_room.wait()
        self._append(data)

    def end(self) -> None:
        """End the queue: nothing more will come."""
        self._is_ended = True
        self._has_news.set()

    async def get(self, limit_bytes: int) -> bytes:
        """Wait for the next bytes and take them; none when all is taken and nothing more will come."""
        await self._has_news.wait()
        return self.take(limit_bytes)

    def take(self, limit_bytes: int) -> bytes:
        """Take what is there now, if anything is."""
        data = bytes(self._data[:limit_bytes])
        del self._data[: len(data)]
        if len(self._data) < self._limit_bytes:
            self._has_room.set()
        if not self._data and not self._is_ended:
            self._has_news.clear()
        return data

    def _append(self, data: bytes) -> None:
        if not data:
            return
        self._data += data
        self._has_news.set()
        if len(self._data) >= self._limit_bytes:
            self._has_room.clear()

"""Memory for large answers: so much at once, and who comes later waits.

What is granted is given back when the answer has left, not when it was made: a client that
does not read keeps its answers in memory.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Grant:
    """Bytes that somebody may use, until `release`."""

    __slots__ = ("_rooms", "_size_bytes")

    def __init__(self, size_bytes: int, rooms: tuple[Room, ...]) -> None:
        self._size_bytes = size_bytes
        self._rooms = rooms

    def release(self) -> None:
        """Give them back; idempotent."""
        rooms, self._rooms = self._rooms, ()
        for room in rooms:
            room.give_back(self._size_bytes)


class Room:
    """So many bytes, given out in the order in which they are asked for.

    More than there are in total is granted when everything else was given back.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used_bytes(self) -> int:
        """How many are granted."""
        return self._used_bytes

    async def take(self, size_bytes: int) -> None:
        """Wait until there is room, and take it. `give_back` must follow."""
        if not self._waiting and self._fits(size_bytes):
            self._used_bytes += size_bytes
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(size_bytes)
            raise

    def give_back(self, size_bytes: int) -> None:
        """Those who wait get what has become free."""
        self._used_bytes -= size_bytes
        while self._waiting:
            wanted_bytes, turn = self._waiting[0]
            if turn.done():
                self._waiting.popleft()
                continue
            if not self._fits(wanted_bytes):
                return
            self._waiting.popleft()
            self._used_bytes += wanted_bytes
            turn.set_result(None)

    def _fits(self, size_bytes: int) -> bool:
        return not self._used_bytes or self._used_bytes + size_bytes <= self._limit_bytes


async def take_all(size_bytes: int, *rooms: Room) -> Grant:
    """Take the same from several rooms, the nearest first."""
    taken: list[Room] = []
    try:
        for room in rooms:
            await room.take(size_bytes)
            taken.append(room)
    except asyncio.CancelledError:
        Grant(size_bytes, tuple(taken)).release()
        raise
    return Grant(size_bytes, rooms)

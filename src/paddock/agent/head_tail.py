"""Bounded output that keeps its beginning and its end.

The middle of a long output is worth least to a model: the head says what ran, the tail how it ended. A
`HeadTail` fills its head first and then keeps the newest tail, and counts what it dropped. Pure.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LIMIT_BYTES: Final = 1 << 20
"""Size of one buffer: half for the head, half for the tail."""


class HeadTail:
    """Collects output of one process, at most `limit_bytes` of it."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._omitted_bytes = 0

    @property
    def omitted_bytes(self) -> int:
        """Return how many bytes between head and tail were dropped."""
        return self._omitted_bytes

    @property
    def total_bytes(self) -> int:
        """Return how many bytes were ever added."""
        return len(self._head) + self._omitted_bytes + self._tail_bytes

    @property
    def head(self) -> bytes:
        """Return the first bytes."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """Return the last bytes that are not in the head."""
        return b"".join(self._tail)

    def add(self, data: bytes) -> None:
        """Take more output."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            self._trim()

    def drain(self) -> HeadTail:
        """Return what was collected, and start again with nothing."""
        drained = HeadTail(self._head_limit + self._tail_limit)
        drained._head, self._head = self._head, bytearray()
        drained._tail, self._tail = self._tail, deque()
        drained._tail_bytes, self._tail_bytes = self._tail_bytes, 0
        drained._omitted_bytes, self._omitted_bytes = self._omitted_bytes, 0
        return drained

    def _trim(self) -> None:
        while (excess := self._tail_bytes - self._tail_limit) > 0:
            oldest = self._tail[0]
            if len(oldest) <= excess:
                self._tail.popleft()
                dropped = len(oldest)
            else:
                self._tail[0] = oldest[excess:]
                dropped = excess
            self._tail_bytes -= dropped
            self._omitted_bytes += dropped

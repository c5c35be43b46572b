"""Wakes those who wait for processes, a bounded number in each turn of the event loop.

A client may have thousands of requests wait for one process, or one for each of thousands, and one moment may
wake them all. Each of them runs before the loop serves anybody else, so all processes of a server share the
turns. Each gets its share of a turn, whoever else has many waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

WOKEN_PER_TURN: Final = 256
"""Each takes some 10 µs until it waits again or asks for its turn to answer: 3 ms."""

WOKEN_TOGETHER: Final = 32
"""The share of one event, while others have somebody to wake too."""


class WakeTurns:
    """The turns of one loop. It belongs to no task: everything is done in calls of the loop."""

    def __init__(self) -> None:
        self._queue: deque[deque[asyncio.Future[None]]] = deque()
        self._left = WOKEN_PER_TURN
        self._is_next_due = False

    def wake(self, waiters: Iterable[asyncio.Future[None]]) -> None:
        """Set the result of all that are not done: at once, or in one of the next turns if there are many."""
        self._queue.append(deque(waiters))
        if self._left:
            self._wake_some()

    def _begin_turn(self) -> None:
        self._is_next_due = False
        self._left = WOKEN_PER_TURN
        self._wake_some()

    def _wake_some(self) -> None:
        before = self._left
        while self._queue and self._left:
            waiters = self._queue.popleft()
            for _ in range(min(len(waiters), self._left, WOKEN_TOGETHER)):
                self._left -= 1
                waiter = waiters.popleft()
                if not waiter.done():
                    waiter.set_result(None)
            if waiters:
                self._queue.append(waiters)
        if not self._is_next_due and (self._queue or self._left < before):
            # Also where nobody is left: the next event of this turn has fewer to wake.
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

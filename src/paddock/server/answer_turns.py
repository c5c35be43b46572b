"""Decides when requests that have waited are answered, if many are ready at once.

One event, or one moment, may wake every request that a connection has parked, and each answer may repeat all
that a process has written. A bounded number of them are answered in one turn of the loop, in the order in
which they were woken, and none while the client is behind with reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

ANSWERS_PER_TURN: Final = 4
"""Each answer has up to 1 MiB of output by default, which takes some milliseconds to collect and encode."""


class AnswerTurns:
    """The turns of one connection; `resume` follows when its client has caught up."""

    def __init__(self, is_congested: Callable[[], bool]) -> None:
        self._is_congested = is_congested
        self._left = ANSWERS_PER_TURN
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_next_due = False

    async def take(self) -> None:
        """Wait until one more request may be answered. Return at once unless many wait."""
        if not self._waiting and self._left and not self._is_congested():
            self._left -= 1
            self._schedule()
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.resume()
        await turn

    def resume(self) -> None:
        """Continue in the next turn of the loop."""
        if self._waiting and not self._is_congested():
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_due = False
        self._left = ANSWERS_PER_TURN
        while self._waiting and self._left and not self._is_congested():
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        if self._left < ANSWERS_PER_TURN:
            self._schedule()

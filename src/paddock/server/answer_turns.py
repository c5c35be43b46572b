"""Decides when requests that have waited are answered, if many are ready at once.

One event, or one moment, may wake every request that connections have parked, and each answer may repeat all
that a process has written. A bounded number of them are answered in one turn of the loop, for all
connections together. Those of one connection are answered in the order in which they were woken, and none
while its client is behind with reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

ANSWERS_PER_TURN: Final = 4
"""Each answer has up to 1 MiB of output by default, which takes some milliseconds to collect and encode."""


class SharedAnswers:
    """The answers of a turn, which all connections of a server share. Each gets one after the other."""

    def __init__(self) -> None:
        self._left = ANSWERS_PER_TURN
        self._asking: deque[AnswerTurns] = deque()
        self._is_next_due = False

    def take(self) -> bool:
        """Take one of the answers of this turn. Return False if none is left, or others wait for one."""
        if self._asking or not self._left:
            return False
        self._left -= 1
        self._schedule()
        return True

    def ask(self, turns: AnswerTurns) -> None:
        """Let a connection `release` one of its requests in one of the next turns."""
        self._asking.append(turns)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_due = False
        self._left = ANSWERS_PER_TURN
        while self._asking and self._left:
            self._left -= self._asking.popleft().release()
        if self._asking or self._left < ANSWERS_PER_TURN:
            self._schedule()


class AnswerTurns:
    """The turns of one connection; `resume` follows when its client has caught up."""

    def __init__(self, is_congested: Callable[[], bool], shared: SharedAnswers) -> None:
        self._is_congested = is_congested
        self._shared = shared
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_asking = False

    async def take(self) -> None:
        """Wait until one more request may be answered. Return at once unless many wait."""
        if not self._waiting and not self._is_congested() and self._shared.take():
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.resume()
        await turn

    def resume(self) -> None:
        """Continue in one of the next turns of the loop."""
        if self._waiting and not self._is_asking and not self._is_congested():
            self._is_asking = True
            self._shared.ask(self)

    def release(self) -> bool:
        """Let the first request that waits be answered, if the client has caught up. Only for
        `SharedAnswers`."""
        self._is_asking = False
        is_released = False
        while self._waiting and not is_released and not self._is_congested():
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                is_released = True
        self.resume()
        return is_released

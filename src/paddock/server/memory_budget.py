"""Memory for large answers: a bounded amount at once; later requests wait.

A grant returns when its answer has been sent, not when it was made: a client that does not read keeps its
answers in memory.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Grant:
    """Bytes that the holder may use until `release`."""

    __slots__ = ("_budgets", "_size_bytes")

    def __init__(self, size_bytes: int, budgets: tuple[MemoryBudget, ...]) -> None:
        self._size_bytes = size_bytes
        self._budgets = budgets

    def joined_by(self, other: Grant) -> Grant:
        """Return a grant of both, of the same size, which replaces them."""
        return Grant(self._size_bytes, (*self._budgets, *other._budgets))

    def release(self) -> None:
        """Give them back; idempotent."""
        budgets, self._budgets = self._budgets, ()
        for budget in budgets:
            budget.give_back(self._size_bytes)


class MemoryBudget:
    """A fixed number of bytes, granted in the order of the requests.

    Unless it `is_in_order`, what fits need not wait for what does not: that is for those who have nothing to
    do with each other. A request for more than the total is granted once everything else has been given back.
    Whoever can't wait for long bounds the wait: others may hold what they have for as long as they like.
    """

    def __init__(self, limit_bytes: int, *, is_in_order: bool = False) -> None:
        self._limit_bytes = limit_bytes
        self._is_in_order = is_in_order
        self._used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size_bytes: int) -> None:
        """Wait until there is enough, and take it. `give_back` must follow."""
        if self._may_have(size_bytes):
            self._used_bytes += size_bytes
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            is_granted = turn.done() and not turn.cancelled()
            # A waiter that gives up no longer delays those behind it.
            self.give_back(size_bytes if is_granted else 0)
            raise

    def give_back(self, size_bytes: int) -> None:
        """Take memory back and give it to those who wait."""
        self._used_bytes -= size_bytes
        waiting, self._waiting = self._waiting, deque()
        for wanted_bytes, turn in waiting:
            if turn.done():
                continue
            if self._may_have(wanted_bytes):
                self._used_bytes += wanted_bytes
                turn.set_result(None)
            else:
                self._waiting.append((wanted_bytes, turn))

    def _may_have(self, size_bytes: int) -> bool:
        if self._is_in_order and self._waiting:
            return False
        return not self._used_bytes or self._used_bytes + size_bytes <= self._limit_bytes


async def take_all(size_bytes: int, *budgets: MemoryBudget) -> Grant:
    """Take the same from several budgets, the nearest first."""
    taken: list[MemoryBudget] = []
    try:
        for budget in budgets:
            await budget.take(size_bytes)
            taken.append(budget)
    except asyncio.CancelledError:
        Grant(size_bytes, tuple(taken)).release()
        raise
    return Grant(size_bytes, budgets)

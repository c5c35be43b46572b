"""A value that a task waits for, with the urgency of the wait.

The urgency ends when the value arrives, not when the waiting task gets its turn: a link may deliver much more
in between that no task needs.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A value that one task waits for and another supplies."""

    __slots__ = ("_future", "_urgency")

    def __init__(self) -> None:
        self._future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._urgency: AbstractContextManager[None] | None = None

    def resolve(self, value: T) -> None:
        """Supply the value. Do nothing if there is one already or the waiting task has stopped waiting."""
        if not self._future.done():
            self._future.set_result(value)
            self._calm_down()

    async def wait(self, urgency: AbstractContextManager[None]) -> T:
        """Wait for the value inside `urgency`, and leave it as soon as the value arrives. Call this once."""
        if not self._future.done():
            urgency.__enter__()
            self._urgency = urgency
        try:
            return await self._future
        finally:
            self._calm_down()

    def _calm_down(self) -> None:
        urgency, self._urgency = self._urgency, None
        if urgency is not None:
            urgency.__exit__(None, None, None)

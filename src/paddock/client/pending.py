"""Something that is waited for, and how urgently.

The urgency ends when the thing is there, not when the waiting task gets its turn:
a link may deliver much more in between, which nobody was in need of.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A value that one task waits for and somebody else brings."""

    __slots__ = ("_future", "_urgency")

    def __init__(self) -> None:
        self._future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._urgency: AbstractContextManager[None] | None = None

    def resolve(self, value: T) -> None:
        """Bring the value; nothing happens when there is one, or nobody waits any more."""
        if not self._future.done():
            self._future.set_result(value)
            self._calm_down()

    async def wait(self, urgency: AbstractContextManager[None]) -> T:
        """Wait for the value inside `urgency`, which is left as soon as the value is there. Call it once."""
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

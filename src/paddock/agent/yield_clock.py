"""Time that a call waits for its command, which stands still while somebody is asked about the command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class YieldClock:
    """The waits for one command. Belongs to the event loop that it is used in."""

    def __init__(self) -> None:
        self._questions = 0
        self._left_s: dict[asyncio.Timeout, float] = {}
        self._answered_at = float("-inf")

    @property
    def stands_still(self) -> bool:
        """Return whether somebody is being asked."""
        return self._questions > 0

    def has_run_for(self, duration_s: float) -> bool:
        """Return whether no question has been open for this long."""
        return not self.stands_still and self._now() - self._answered_at >= duration_s

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Stop all waits of this clock for the time of the block."""
        self._questions += 1
        if self._questions == 1:
            self._stop()
        try:
            yield
        finally:
            self._questions -= 1
            if not self._questions:
                self._go_on()

    @asynccontextmanager
    async def limit(self, timeout_s: float) -> AsyncIterator[None]:
        """Leave the block when the time is over, without an error."""
        timer = asyncio.timeout(None if self.stands_still else timeout_s)
        try:
            async with timer:
                self._left_s[timer] = timeout_s
                yield
        except TimeoutError:
            if not timer.expired():
                raise
        finally:
            self._left_s.pop(timer, None)

    def _stop(self) -> None:
        for timer in self._left_s:
            when = timer.when()
            if when is not None and not timer.expired():
                self._left_s[timer] = max(when - self._now(), 0.0)
                timer.reschedule(None)

    def _go_on(self) -> None:
        self._answered_at = self._now()
        for timer, left_s in self._left_s.items():
            if timer.when() is None and not timer.expired():
                timer.reschedule(self._answered_at + left_s)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

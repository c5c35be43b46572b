"""Tells a lasting pause from the many short ones that are back-pressure at work.

Bulk output to a client that is a little slower pauses hundreds of times a second. Only
a pause that lasts is worth a line in the log, and so is its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LASTING_S = 1.0
"""The length from which a person would notice a pause."""


class Stall:
    """Watches one thing that pauses.

    `on_lasting` is called when a pause has lasted, `on_over` at the end of such a one, with its duration.
    """

    __slots__ = ("_begun_at_s", "_is_lasting", "_on_lasting", "_on_over", "_timer")

    def __init__(self, on_lasting: Callable[[], None], on_over: Callable[[float], None]) -> None:
        self._on_lasting = on_lasting
        self._on_over = on_over
        self._begun_at_s = 0.0
        self._is_lasting = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Note that it pauses. `end` must follow."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._begun_at_s = loop.time()
            self._timer = loop.call_later(LASTING_S, self._last)

    def end(self) -> None:
        """Note that it goes on, or is over. Idempotent."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if self._is_lasting:
            self._is_lasting = False
            self._on_over(asyncio.get_running_loop().time() - self._begun_at_s)

    def _last(self) -> None:
        self._is_lasting = True
        self._on_lasting()

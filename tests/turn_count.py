"""Counts how often something happens in one turn of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class TurnCount:
    """What `watch` has counted: calls on the loop by turn, and calls in other threads."""

    def __init__(self) -> None:
        self.by_turn: Counter[int] = Counter()
        self.elsewhere = 0
        self._turn = 0
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._is_over = False

    @property
    def most(self) -> int:
        """Calls in the turn that had the most."""
        return max(self.by_turn.values(), default=0)

    @property
    def on_loop(self) -> int:
        return sum(self.by_turn.values())

    def tick(self) -> None:
        self._turn += 1
        if not self._is_over:
            self._loop.call_soon(self.tick)

    def end(self) -> None:
        self._is_over = True

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread:
                self.by_turn[self._turn] += 1
            else:
                self.elsewhere += 1
            return function(*args, **kwargs)

        return counted


@contextmanager
def counted(owner: Any, name: str) -> Iterator[TurnCount]:
    """Count the calls of a function for the time of the block."""
    count = TurnCount()
    count.tick()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, count.wrap(getattr(owner, name)))
        yield count
    count.end()

"""Bounds the work of a thread that has little time.

A server plans sandboxes in a few threads for all clients, where each plan takes milliseconds. If a plan turns
out to need more, it raises TakesLong, and the server plans again where only one client waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STEPS: Final = 4096
"""Steps of some microseconds each, for one plan: about ten milliseconds."""


class TakesLong(Exception):
    """The budget is spent. Nothing was done; ask again without one."""


class _Budget(threading.local):
    steps: int | None = None
    """Steps left; None without a budget."""


_budget = _Budget()


@contextmanager
def step_budget() -> Iterator[None]:
    """Let this thread take no more than STEPS until the end of the block."""
    _budget.steps = STEPS
    try:
        yield
    finally:
        _budget.steps = None


def take_steps(count: int) -> None:
    """Note that the next operation takes this many steps. Raises TakesLong if there is no time for them."""
    if _budget.steps is None:
        return
    _budget.steps -= count
    if _budget.steps < 0:
        raise TakesLong

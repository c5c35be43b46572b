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
    """A hasty request needs more time. Nothing was done; ask again without haste."""


class _Time(threading.local):
    steps: int | None = None
    """Steps left; None without haste."""


_time = _Time()


@contextmanager
def haste() -> Iterator[None]:
    """Have this thread take no more than STEPS until the end of the block."""
    _time.steps = STEPS
    try:
        yield
    finally:
        _time.steps = None


def take_steps(count: int) -> None:
    """Note that the next operation takes this many steps. Raises TakesLong if there is no time for them."""
    if _time.steps is None:
        return
    _time.steps -= count
    if _time.steps < 0:
        raise TakesLong

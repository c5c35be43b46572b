"""Waiting for a process: what it costs, whatever the loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
import uvloop

from paddock.process.managed import ManagedProcess
from paddock.process.wake_turns import WakeTurns
from paddock.server.handlers.process import _changed

Run = Callable[[Coroutine[Any, Any, list[int]]], list[int]]


class Idle:
    """A process of which there is no news."""

    def __init__(self) -> None:
        self.waits = 0
        self._turns = WakeTurns()

    async def changed(self, deadline_s: float) -> None:
        self.waits += 1
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        loop.call_at(deadline_s, self._turns.wake, (waiter,))
        await waiter


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_wait_without_news_ends_at_its_first_timer(run: Run) -> None:
    async def waits() -> list[int]:
        found = []
        for timeout_ms in range(1, 30):
            idle = Idle()
            await _changed(cast(ManagedProcess, idle), timeout_ms, lambda: False)
            found.append(idle.waits)
        return found

    assert set(run(waits())) == {1}

"""Runs a coroutine that Ctrl-C ends, as `asyncio.run` does, for verbs that must be quick.

The module `signal` formats every handler that it returns. That of `asyncio.run` holds a task, and to format a
task takes longer than to start a command.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_interruptible(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, and return its result.

    The first SIGINT cancels it, and after that this raises KeyboardInterrupt; the next one does so at once. A
    caller that ignores the signal goes on ignoring it. Call this in the main thread.
    """
    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(main)
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return runner.run(_result_of(task))
        interruption = _Interruption(task)
        signal.signal(signal.SIGINT, interruption.received)
        try:
            return runner.run(_result_of(task))
        except asyncio.CancelledError:
            if interruption.has_come:
                raise KeyboardInterrupt from None
            raise
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)


async def _result_of(task: asyncio.Task[T]) -> T:
    return await task


class _Interruption:
    """What SIGINT does to a task."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.has_come = False

    def received(self, _number: int, _frame: object) -> None:
        """Cancel the task, once."""
        if self.has_come or self._task.done():
            raise KeyboardInterrupt
        self.has_come = True
        self._task.cancel()
        # A signal does not end the loop's wait.
        self._task.get_loop().call_soon_threadsafe(lambda: None)

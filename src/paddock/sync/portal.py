"""An event loop in a thread of its own, and the way into it from other threads.

It knows nothing of the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Event, Thread, get_ident
from typing import Any, Final, TypeVar

from paddock.errors import ConnectionLost

T = TypeVar("T")

CLEANUP_S: Final = 10.0
"""How long an interrupted call may take to clean up: twice the longest time that ending a process takes."""


class Portal:
    """A running event loop. `close` it from another thread, or `drop` it from any."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._last_call: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.is_open = False
        """Whether the portal accepts calls."""
        started = Event()
        # A daemon: a program that forgets to close its box must still be able to end.
        self._thread = Thread(target=self._run, args=(started.set,), name="paddock", daemon=True)
        self._thread.start()
        started.wait()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, wait for it, and return or raise its outcome.

        When something interrupts the wait, such as Ctrl-C, this cancels the coroutine and waits for its
        clean-up first. Raises ConnectionLost when the portal is closed.
        """
        if get_ident() == self._thread.ident:
            work.close()
            raise RuntimeError("a blocking call in the thread of its own event loop would never return")
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []
        self._enter(partial(self._begin, work, outcome, tasks), work)
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._abandon(outcome, tasks)
            raise

    def close(self) -> None:
        """End the loop and wait for its thread. Idempotent."""
        self.drop()
        self._thread.join()

    def drop(self, last_call: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """End the loop soon, after `last_call`, and cancel everything else in it. Idempotent."""
        self._last_call = last_call
        # RuntimeError: the loop is closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)

    # --- inside -------------------------------------------------------------

    def _run(self, started: Callable[[], None]) -> None:
        asyncio.run(self._serve(started))

    async def _serve(self, started: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.is_open = True
        started()
        await self._stop.wait()
        self.is_open = False
        if self._last_call is not None:
            await self._last_call()

    def _enter(self, action: Callable[[], None], work: Coroutine[Any, Any, Any]) -> None:
        try:
            if self.is_open:
                self._loop.call_soon_threadsafe(action)
                return
        except RuntimeError:
            pass
        work.close()
        raise ConnectionLost("the connection was closed on this side")

    def _begin(self, work: Coroutine[Any, Any, T], outcome: Future[T], tasks: list[asyncio.Task[T]]) -> None:
        task = self._loop.create_task(work)
        tasks.append(task)
        task.add_done_callback(partial(_pass_on, outcome))

    def _abandon(self, outcome: Future[Any], tasks: list[asyncio.Task[Any]]) -> None:
        def cancel() -> None:
            for task in tasks:
                task.cancel()

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(cancel)
        # The caller must learn what interrupted the wait.
        with suppress(Exception):
            outcome.exception(CLEANUP_S)


def _pass_on(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(ConnectionLost("the connection was closed on this side"))
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())

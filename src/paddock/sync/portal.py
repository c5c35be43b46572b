"""An event loop in a thread of its own, and the way into it from other threads.

It knows nothing of the client.
"""

from __future__ import annotations

import asyncio
import os
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

CLOSED: Final = "the connection was closed on this side"


class Portal:
    """A running event loop. `close` it from another thread, or `drop` it from any.

    It belongs to the process that has made it: a fork has no thread that would run it, and so no open portal.
    Raises OSError when there are too few descriptors for a loop, RuntimeError when there is no thread.
    """

    _problem: OSError | None = None
    """Why there is no loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._last_call: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._pid = os.getpid()
        self._accepts_calls = False
        self._outcomes: set[Future[Any]] = set()
        """Of the calls under way."""
        started = Event()
        # A daemon: a program that forgets to close its box must still be able to end.
        self._thread = Thread(target=self._run, args=(started.set,), name="paddock", daemon=True)
        self._thread.start()
        started.wait()
        if self._problem is not None:
            self._thread.join()
            raise self._problem

    @property
    def is_open(self) -> bool:
        """Return whether the portal accepts calls."""
        return self._accepts_calls and self._pid == os.getpid()

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
        self._outcomes.add(outcome)
        try:
            self._enter(partial(self._begin, work, outcome, tasks), work)
            try:
                return outcome.result()
            except BaseException:
                if not outcome.done():
                    self._abandon(outcome, tasks)
                raise
        finally:
            self._outcomes.discard(outcome)

    def close(self) -> None:
        """End the loop and wait for its thread. Idempotent."""
        self.drop()
        self._thread.join()

    def drop(self, last_call: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """End the loop soon, after `last_call`, and cancel everything else in it. Idempotent."""
        if self._pid != os.getpid():
            return
        self._last_call = last_call
        # RuntimeError: the loop is closed.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)

    # --- inside -------------------------------------------------------------

    def _run(self, started: Callable[[], None]) -> None:
        try:
            # It makes the loop before there is a coroutine.
            with asyncio.Runner() as runner:
                runner.get_loop()
                runner.run(self._serve(started))
        except OSError as error:
            if self._accepts_calls:
                raise
            self._problem = error
        finally:
            self._accepts_calls = False
            started()
            # A call may have come too late for the loop, and too early to see that it was closed.
            for outcome in tuple(self._outcomes):
                if not outcome.done():
                    outcome.set_exception(ConnectionLost(CLOSED))

    async def _serve(self, started: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._accepts_calls = True
        started()
        await self._stop.wait()
        self._accepts_calls = False
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
        is_ours = self._pid == os.getpid()
        raise ConnectionLost(CLOSED if is_ours else "the connection stays with the process that was forked")

    def _begin(self, work: Coroutine[Any, Any, T], outcome: Future[T], tasks: list[asyncio.Task[T]]) -> None:
        task = self._loop.create_task(work)
        tasks.append(task)
        task.add_done_callback(partial(_pass_on, outcome))

    def _abandon(self, outcome: Future[Any], tasks: list[asyncio.Task[Any]]) -> None:
        def cancel() -> None:
            # The loop may have been too busy to begin the task before, and does so before this.
            for task in tasks:
                task.cancel()

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(cancel)
        # The caller must learn what interrupted the wait.
        with suppress(Exception):
            outcome.exception(CLEANUP_S)


def _pass_on(outcome: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        outcome.set_exception(ConnectionLost(CLOSED))
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())

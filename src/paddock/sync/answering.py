"""Lets the asynchronous client call functions that block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


def in_thread(function: Callable[[Any], T]) -> Callable[[Any], Coroutine[Any, Any, T]]:
    """Turn a blocking function into an asynchronous one. A cancelled caller does not wait for it.

    The threads are daemons: nobody can end a function that asks a person, and neither the
    box nor the program waits for one when it ends.
    """

    async def call(argument: Any) -> T:
        outcome: Future[T] = Future()
        # From now on a caller that gives up can't cancel the future, so the thread may always set it.
        outcome.set_running_or_notify_cancel()
        arguments = (function, argument, outcome)
        Thread(target=_run, args=arguments, name="paddock-answer", daemon=True).start()
        return await asyncio.wrap_future(outcome)

    return call


def _run(function: Callable[[Any], T], argument: Any, outcome: Future[T]) -> None:
    try:
        outcome.set_result(function(argument))
    except Exception as error:
        outcome.set_exception(error)

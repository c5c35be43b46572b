"""Runs work that blocks in a thread, for callers that close what the work uses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from paddock.shortage import no_thread

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: Any, undo: Callable[[T], None] | None = None) -> T:
    """Run work in a thread, and return or raise its outcome. Raises OSError if there is no room for a thread.

    Nobody can stop a thread. So a cancelled caller goes on only when the work is over: it closes descriptors
    that the work uses, and their numbers may belong to other files a moment later. `undo` gets a result that
    the cancelled caller does not.
    """
    # Not a task, which would be cancelled with all others when the loop ends.
    try:
        working = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments))
    except RuntimeError as error:
        raise no_thread() from error
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        if not working.cancelled() and working.exception() is None and undo is not None:
            undo(working.result())
        raise

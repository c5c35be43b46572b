"""Runs a started process to its end, within limits. Whatever goes wrong, it does not keep running."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from paddock.client.output_reader import OutputExcess, OutputSink
from paddock.client.process import KILL_TIMEOUT_S, Process
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.client.process import Bytes


class TimedOut(Exception):
    """The process ran out of time and was killed."""


async def complete(
    process: Process, sink: OutputSink, input: Bytes | None = None, timeout_s: float | None = None
) -> bool:
    """Pass a process's output to the sink until the process ends; return whether that was all of it.

    After `timeout_s` this kills the process group, passes on the output until then, and raises TimedOut. It
    also kills the group when the sink raises OutputExcess, when anything else goes wrong, and when it is
    cancelled.
    """
    timer = asyncio.timeout(timeout_s)
    try:
        async with timer:
            is_complete = await process.gather(sink, input, is_exit_enough=True)
            await process.wait()
            return is_complete
    except BaseException as error:
        process.kill_now()
        if timeout_s is None or not isinstance(error, TimeoutError) or not timer.expired():
            raise
        await _gather_rest(process, sink)
        raise TimedOut from None


async def _gather_rest(process: Process, sink: OutputSink) -> None:
    try:
        async with asyncio.timeout(KILL_TIMEOUT_S):
            async for output in process:
                sink.add(output)
    except (TimeoutError, PaddockError, OutputExcess):
        # The caller must learn of the timeout, whatever else fails here.
        pass

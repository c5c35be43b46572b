"""Operations in threads of this process.

Two lanes are shared by all connections: operations that are over at once are never behind
those that move much data or walk trees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from paddock.fs.handle import HandleTable
from paddock.fs.lane import CLOSE_TIMEOUT_S, Lane
from paddock.fs.metadata import get_metadata_at_once
from paddock.fs.operation import A, Operation, is_bulky
from paddock.fs.perform import perform
from paddock.fs.step_scheduler import StepScheduler

T = TypeVar("T")

QUICK_THREADS = 16
"""More only help while operations hang; each costs a stack."""

BULK_THREADS = 8
"""At most so many transfers and walks at once, which is more than the disks of one host are good for."""


class Lanes:
    """The threads of a server, and the turns of its loop for what is done in steps. `aclose` must follow."""

    def __init__(self) -> None:
        self.step_scheduler = StepScheduler()
        self.quick = Lane("paddock-fs-quick", QUICK_THREADS)
        self.bulk = Lane("paddock-fs-bulk", BULK_THREADS)

    def lane_of(self, operation: Operation[Any]) -> Lane:
        """Return the lane where an operation hinders nobody."""
        return self.bulk if is_bulky(operation) else self.quick

    async def run(self, work: Callable[[], T]) -> T:
        """Do something that needs the processor for long, among the bulky operations."""
        return await self.bulk.submit(work)

    async def aclose(self) -> None:
        """Finish what is under way and end the threads. Bounded."""
        await asyncio.gather(self.quick.aclose(), self.bulk.aclose())


class LocalOperations:
    """Operations with their own open files, in shared threads."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._handles = HandleTable()

    # See `Operations`. What waits for nothing needs no thread.
    metadata_at_once = staticmethod(get_metadata_at_once)

    async def perform(self, operation: Operation[A]) -> A:
        """Carry one operation out. Raises RequestError."""
        return await self._lanes.lane_of(operation).submit(partial(perform, operation, self._handles))

    async def aclose(self) -> None:
        """Close every open file; what was to be published is discarded. Waits a while, if threads hang."""
        if self._handles.end():
            closing = self._lanes.bulk.submit_surely(self._handles.close_all)
            await asyncio.wait([closing], timeout=CLOSE_TIMEOUT_S)

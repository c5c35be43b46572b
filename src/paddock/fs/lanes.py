"""The threads that all connections of a server share, in two lanes.

Operations that are over at once are never behind those that move much data or walk trees. What an operation
is, and which are bulky, is not known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from paddock.fs.lane import Lane
from paddock.fs.step_scheduler import StepScheduler

T = TypeVar("T")

QUICK_THREADS = 16
"""More only help while operations hang; each costs a stack."""

BULK_THREADS = 8
"""Most transfers and walks at once, which is more than the disks of one host can serve."""

BULK_SHARE = 4
"""How many of these one connection uses at once: its searches of large trees leave threads to the others."""


class Lanes:
    """The threads of a server, and the turns of its loop for what is done in steps. `aclose` must follow."""

    def __init__(self) -> None:
        self.step_scheduler = StepScheduler()
        self.quick = Lane("paddock-fs-quick", QUICK_THREADS)
        self.bulk = Lane("paddock-fs-bulk", BULK_THREADS)

    async def run(self, work: Callable[[], T]) -> T:
        """Do something that needs the processor for long, among the bulky operations."""
        return await self.bulk.submit(work)

    async def aclose(self) -> None:
        """Finish what is under way and end the threads. Bounded."""
        await asyncio.gather(self.quick.aclose(), self.bulk.aclose())

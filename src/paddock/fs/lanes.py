"""The threads that all connections of a server share, in two lanes.

Quick operations never wait behind those that move much data or walk trees. This module does not know what an
operation is, nor which ones are bulky.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from paddock.fs.lane import Lane
from paddock.fs.step_scheduler import StepScheduler

T = TypeVar("T")

QUICK_THREADS = 16
"""More threads help only while operations hang, and each costs a stack."""

BULK_THREADS = 8
"""Limit for simultaneous transfers and walks: more than the disks of one host can serve."""

BULK_SHARE = 3
"""Limit for one connection, so that even the searches of two in large trees leave threads to the others."""


class Lanes:
    """The threads of a server, and the scheduler of work done in steps on its loop. `aclose` must follow."""

    def __init__(self) -> None:
        self.step_scheduler = StepScheduler()
        self.quick = Lane("paddock-fs-quick", QUICK_THREADS)
        self.bulk = Lane("paddock-fs-bulk", BULK_THREADS)

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function that needs the processor for long, in a thread for bulky operations."""
        return await self.bulk.submit(work)

    async def aclose(self) -> None:
        """Finish the jobs under way and end the threads. Bounded."""
        await asyncio.gather(self.quick.aclose(), self.bulk.aclose())

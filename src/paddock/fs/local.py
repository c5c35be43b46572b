"""Operations in threads of this process, which all connections share."""

from __future__ import annotations

import asyncio
from functools import partial

from paddock.fs.handle import HandleTable
from paddock.fs.lane import CLOSE_TIMEOUT_S
from paddock.fs.lanes import BULK_SHARE, Lanes
from paddock.fs.metadata import get_metadata_at_once
from paddock.fs.operation import A, Operation, is_bulky
from paddock.fs.perform import perform


class LocalOperations:
    """Operations with their own open files, in shared threads."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._handles = HandleTable()
        self._bulk_share = asyncio.Semaphore(BULK_SHARE)

    # See `Operations`. A call that never waits needs no thread.
    metadata_at_once = staticmethod(get_metadata_at_once)

    async def perform(self, operation: Operation[A]) -> A:
        """Carry one operation out. Raises RequestError."""
        work = partial(perform, operation, self._handles)
        if not is_bulky(operation):
            return await self._lanes.quick.submit(work)
        async with self._bulk_share:
            return await self._lanes.bulk.submit(work)

    async def aclose(self) -> None:
        """Close every open file and discard those not yet published. Bounded, even if threads hang."""
        if self._handles.end():
            closing = self._lanes.bulk.submit_surely(self._handles.close_all)
            await asyncio.wait([closing], timeout=CLOSE_TIMEOUT_S)

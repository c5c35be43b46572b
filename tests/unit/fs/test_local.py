"""Operations in the threads that all connections share."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

import pytest

from paddock.fs import local
from paddock.fs.answer import Listing
from paddock.fs.handle import HandleTable
from paddock.fs.lanes import BULK_THREADS, Lanes
from paddock.fs.local import LocalOperations
from paddock.fs.operation import A, Operation, ReadDirectory
from paddock.fs.perform import perform

SLOW = ReadDirectory(path=b"/slow", max_entries=1)


async def test_two_clients_with_many_long_operations_leave_threads_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def slowly(operation: Operation[A], handles: HandleTable) -> A:
        if operation == SLOW:
            is_over.wait()
            return cast("A", Listing(entries=[]))
        return perform(operation, handles)

    monkeypatch.setattr(local, "perform", slowly)
    lanes = Lanes()
    *busy, other = (LocalOperations(lanes) for _ in range(3))
    slow = [asyncio.ensure_future(each.perform(SLOW)) for each in busy for _ in range(2 * BULK_THREADS)]
    try:
        # All of them have been submitted, as far as they are, after one turn of the loop.
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await other.perform(ReadDirectory(path=bytes(tmp_path), max_entries=1))
        assert not any(each.done() for each in slow)
    finally:
        is_over.set()
        assert len(await asyncio.gather(*slow)) == len(slow)
        await lanes.aclose()

"""Files that are open under a profile, when their clients do what nobody expects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from paddock.errors import NotFound
from paddock.fs.answer import Opened
from paddock.fs.operation import Close, GetMetadata, Open, OpenMode, ReadDirectory
from paddock.fs.remote import BULK_SHARE, WorkerOperations
from paddock.fs.worker import BULK_THREADS
from paddock.model.profile import ExternalProfile
from paddock.server.confined_operations import ConfinedOperations, without_writing
from paddock.server.confinement import Confinement
from paddock.server.file_workers import FileWorkers
from tests.unit.fs.places import worker

PROFILE = ExternalProfile()

SLOWLY = (
    "import paddock.fs.worker as w, threading; at_once = w.perform; end = threading.Event();"
    "w.perform = lambda operation, handles: (operation.path == b'/slow' and end.wait(),"
    " operation.path == b'/end' and end.set(), at_once(operation, handles))[2];"
)
"""Lets operations of a worker on /slow wait until there was one on /end."""


class SlowWorkers:
    """One worker, which opens files when it is told to."""

    def __init__(self) -> None:
        self.is_opening = asyncio.Event()
        self.may_open = asyncio.Event()
        self.performed: list[object] = []
        self.is_kept = False
        self.tasks: list[asyncio.Task[None]] = []

    async def admit(self, _: Confinement) -> None:
        pass

    @asynccontextmanager
    async def worker(self, _: Confinement, __: int) -> AsyncIterator[SlowWorkers]:
        self.is_kept = True
        yield self
        self.is_kept = False

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def perform(self, operation: object) -> Opened | None:
        self.performed.append(operation)
        if isinstance(operation, Close):
            return None
        self.is_opening.set()
        await self.may_open.wait()
        return Opened(handle=7, size_bytes=0, beginning=b"")


async def test_file_that_is_open_when_nobody_waits_for_it_any_more_is_closed() -> None:
    workers = SlowWorkers()
    operations = ConfinedOperations(cast(FileWorkers, workers), Confinement(PROFILE, ()), 1, set())
    opening = asyncio.create_task(operations.perform(Open(path=b"/x", mode=OpenMode.READ)))
    await workers.is_opening.wait()
    opening.cancel()
    await asyncio.wait([opening])
    assert workers.is_kept
    workers.may_open.set()
    await asyncio.wait(workers.tasks)
    assert workers.performed[1:] == [Close(handle=7, discard=True)]
    assert not workers.is_kept


async def test_file_that_is_not_open_can_not_be_closed() -> None:
    operations = ConfinedOperations(cast(FileWorkers, SlowWorkers()), Confinement(PROFILE, ()), 1, set())
    with pytest.raises(NotFound, match="not open"):
        await operations.perform(Close(handle=1, discard=False))


class OneWorker:
    """One worker for all clients."""

    def __init__(self, operations: WorkerOperations) -> None:
        self._operations = operations

    async def admit(self, _: Confinement) -> None:
        pass

    @asynccontextmanager
    async def worker(self, _: Confinement, __: int) -> AsyncIterator[WorkerOperations]:
        yield self._operations


async def test_two_clients_with_many_long_operations_leave_threads_of_a_worker_to_the_others() -> None:
    assert 2 * BULK_SHARE < BULK_THREADS
    async with worker(preparation=SLOWLY) as (files, _):
        workers = cast(FileWorkers, OneWorker(files))
        *busy, other = (
            ConfinedOperations(workers, Confinement(PROFILE, ()), each, set()) for each in range(3)
        )
        slow = [
            asyncio.ensure_future(each.perform(ReadDirectory(path=b"/slow", max_entries=1)))
            for each in busy
            for _ in range(2 * BULK_THREADS)
        ]
        try:
            # The worker has got all that it gets of these before this.
            await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await other.perform(ReadDirectory(path=b"/", max_entries=100))
            assert not any(each.done() for each in slow)
        finally:
            with pytest.raises(NotFound):
                await other.perform(GetMetadata(path=b"/end"))
            ended = await asyncio.gather(*slow, return_exceptions=True)
        assert all(isinstance(each, NotFound) for each in ended)


def test_profile_that_says_nothing_of_files_stays_as_it_is() -> None:
    assert without_writing(PROFILE) is PROFILE

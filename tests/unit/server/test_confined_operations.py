"""Files that are open under a profile, when their clients do what nobody expects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from paddock.errors import NotFound
from paddock.fs.answer import Opened
from paddock.fs.operation import Close, Open, OpenMode
from paddock.model.profile import ExternalProfile
from paddock.server.confined_operations import ConfinedOperations, without_writing
from paddock.server.confinement import Confinement
from paddock.server.file_workers import FileWorkers

PROFILE = ExternalProfile()


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


def test_profile_that_says_nothing_of_files_stays_as_it_is() -> None:
    assert without_writing(PROFILE) is PROFILE

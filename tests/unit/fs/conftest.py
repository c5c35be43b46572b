"""The places in which the same behaviour is tested, and a directory that an ordinary user can reach."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from paddock.fs.lanes import Lanes
from paddock.fs.operations import Operations
from paddock.fs.watch_set import WatchSet
from tests.unit.fs.places import NOBODY, ordinary_user, threads, worker


@pytest.fixture(params=["threads", "worker"])
async def files(request: pytest.FixtureRequest) -> AsyncIterator[Operations]:
    """Operations, once in threads and once in a worker."""
    if request.param == "threads":
        async with threads() as operations:
            yield operations
    else:
        async with worker() as (operations, _):
            yield operations


@pytest.fixture
async def ordinary_files() -> AsyncIterator[Operations]:
    """Operations with the rights of an ordinary user."""
    async with ordinary_user() as operations:
        yield operations


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that belongs to the ordinary user."""
    with tempfile.TemporaryDirectory(prefix="paddock-") as name:
        os.chmod(name, 0o755)
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.fixture
async def lanes() -> AsyncIterator[Lanes]:
    """Threads for watches."""
    lanes = Lanes()
    yield lanes
    await lanes.aclose()


@pytest.fixture
async def watches(lanes: Lanes) -> AsyncIterator[WatchSet]:
    """The watches of one client."""
    watches = WatchSet(lanes)
    yield watches
    await watches.aclose()

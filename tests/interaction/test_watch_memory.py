"""What a watch keeps is bounded for each client, of no interest to the garbage collector, and given back."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import InvalidRequest
from paddock.fs import watch_set
from paddock.fs.lanes import Lanes
from paddock.protocol.path import parse_path
from paddock.protocol.structure import Result
from paddock.server.watches import ClientWatches

MANY = 400


class Deaf:
    """A client that does not care what it is told."""

    def notify(self, method: str, params: Result) -> None:
        pass

    async def caught_up(self) -> None:
        pass


@asynccontextmanager
async def client() -> AsyncIterator[tuple[ClientWatches, Lanes]]:
    lanes = Lanes()
    watches = ClientWatches(Deaf(), lanes)
    try:
        yield watches, lanes
    finally:
        await watches.aclose()
        await lanes.aclose()


async def watch(watches: ClientWatches, tree: Path, **options: Any) -> int:
    return await watches.watch(parse_path(str(tree)), bytes(tree), is_recursive=True, **options)


def make_tree(parent: Path) -> None:
    """Directories of which every second one has another."""
    for number in range(0, MANY, 3):
        (parent / str(number)).mkdir()
        (parent / str(number + 1) / "below").mkdir(parents=True)


def objects() -> int:
    """Those that a full collection looks at."""
    for _ in range(2):
        gc.collect()
    return len(gc.get_objects())


@pytest.mark.unmeasured
async def test_a_standing_watch_gives_the_garbage_collector_nothing_to_do(tmp_path: Path) -> None:
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
    make_tree(tmp_path / "large")
    async with client() as (watches, _):
        await watch(watches, tmp_path / "small")
        before = objects()
        for _ in range(3):
            await watch(watches, tmp_path / "large")
        # Three watches have their own objects, and each directory of each none; there are 1200.
        assert objects() - before < 200


async def test_directories_that_were_not_looked_at_yet_count_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tree(tmp_path)
    monkeypatch.setattr(watch_set, "MAX_KEPT_BYTES", 2 * MANY * 600)
    async with client() as (watches, _):
        results = await asyncio.gather(*(watch(watches, tmp_path) for _ in range(10)), return_exceptions=True)
        begun = [each for each in results if isinstance(each, int)]
        refused = [each for each in results if isinstance(each, InvalidRequest)]
        assert len(begun) + len(refused) == 10
        assert len(begun) <= 2
        # Ended watches make room again.
        for watch_id in begun:
            watches.unwatch(watch_id)
        await watch_when_there_is_room(watches, tmp_path)


async def watch_when_there_is_room(watches: ClientWatches, tree: Path) -> int:
    """Watch; what others have kept is given back in the turns of the loop."""
    while True:
        try:
            return await watch(watches, tree)
        except InvalidRequest:
            continue


async def test_what_was_renamed_is_given_back(tmp_path: Path) -> None:
    async with client() as (watches, _):
        for name in ("a", "mark"):
            (tmp_path / name).mkdir()
        make_tree(tmp_path / "a")
        await watch(watches, tmp_path)
        kept = watches._watch_set()
        before = kept.left_bytes
        for _ in range(20):
            (tmp_path / "a").rename(tmp_path / "b")
            (tmp_path / "b").rename(tmp_path / "a")
            await watch(watches, tmp_path / "mark")
            watches.unwatch(watches._last_id)
        await until(lambda: kept.left_bytes == before)
        watches.unwatch(1)
        await until(lambda: kept.left_bytes == watch_set.MAX_KEPT_BYTES)


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    while not is_so():  # noqa: ASYNC110 - what is given back is told to nobody
        await asyncio.sleep(0)


def held(directory: Path) -> int:
    """Descriptors of this process for a directory."""
    links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sum(os.path.lexists(link) and os.readlink(link) == str(directory) for link in links)


@pytest.mark.parametrize("is_done_first", [False, True])
@pytest.mark.parametrize("turns", range(8))
async def test_a_look_that_nobody_takes_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int, is_done_first: bool
) -> None:
    """The connection ends some turns before the look does, or after it."""
    async with client() as (watches, lanes):
        is_held = asyncio.Event()
        jobs: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        submit, loop = lanes.bulk.submit, asyncio.get_running_loop()

        def hold_first(job: Callable[[], Any]) -> asyncio.Future[Any]:
            if jobs:
                return submit(job)
            jobs.append((job, loop.create_future()))
            is_held.set()
            return jobs[0][1]

        monkeypatch.setattr(lanes.bulk, "submit", hold_first)
        beginning: asyncio.Future[Any] = asyncio.ensure_future(
            watch(watches, tmp_path, read_filter=lambda _path: True)
        )
        await is_held.wait()
        job, future = jobs[0]
        waits = [beginning]

        def close() -> None:
            waits.append(asyncio.ensure_future(watches.aclose()))

        def finish() -> None:
            future.set_result(job())

        first, second = (finish, close) if is_done_first else (close, finish)
        first()
        for _ in range(turns):
            await asyncio.sleep(0)
        second()
        await asyncio.wait(waits)
        assert held(tmp_path) == 0

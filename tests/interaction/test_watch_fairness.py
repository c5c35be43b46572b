"""Watches take little of each turn of the loop, and no descriptor that is not theirs.

What is bounded is counted and not timed: how much one turn of the loop does, and what a thread does instead.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.fs.changes import Changes
from paddock.fs.lanes import Lanes
from paddock.fs.watch_set import WatchSet
from paddock.inotify import Inotify
from paddock.protocol.path import parse_path
from paddock.protocol.structure import Result
from paddock.protocol.watch import ChangedEvent
from paddock.server.watches import ClientWatches
from tests.turn_count import counted

STEPS = 64
"""What one turn may do."""
MANY = 500


class Told:
    """A client that keeps what it is told of."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.longest = 0
        self.has_come = asyncio.Event()

    def notify(self, method: str, params: Result) -> None:
        assert isinstance(params, ChangedEvent)
        self.paths |= {change.path for change in params.events}
        self.longest = max(self.longest, len(params.events))
        self.has_come.set()

    async def caught_up(self) -> None:
        pass

    async def until(self, *paths: Path) -> None:
        while not self.paths >= set(map(str, paths)):
            self.has_come.clear()
            await self.has_come.wait()


@asynccontextmanager
async def watching(tree: Path) -> AsyncIterator[tuple[ClientWatches, Told, Lanes]]:
    """A watch of everything below a directory; its id is 1."""
    told, lanes = Told(), Lanes()
    watches = ClientWatches(told, lanes)
    try:
        watch_id = await watches.watch(parse_path(str(tree)), bytes(tree), is_recursive=True)
        watches.announce(watch_id)
        yield watches, told, lanes
    finally:
        await watches.aclose()
        await lanes.aclose()


def make_many(parent: Path) -> None:
    parent.mkdir()
    for number in range(MANY):
        (parent / str(number)).mkdir()


async def test_one_turn_hears_a_bounded_number_of_notices(tmp_path: Path) -> None:
    async with watching(tmp_path) as (_, told, _):
        with counted(Changes, "add") as count:
            for number in range(3000):
                (tmp_path / str(number)).touch()
            await told.until(tmp_path / "2999")
        assert len(told.paths) == 3000
        assert count.most <= STEPS
        assert told.longest <= 512


async def test_one_turn_registers_a_bounded_number_of_directories(tmp_path: Path) -> None:
    make_many(tmp_path / "many")
    with counted(WatchSet, "listen") as count:
        async with watching(tmp_path):
            pass
    assert count.on_loop == MANY + 2
    assert count.most <= STEPS


async def test_one_turn_forgets_a_bounded_number_of_directories_that_were_moved_away(tmp_path: Path) -> None:
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    tree.mkdir()
    make_many(tree / "many")
    async with watching(tree) as (_, told, _):
        with counted(WatchSet, "forget") as count:
            (tree / "many").rename(elsewhere)
            (tree / "last").touch()
            await told.until(tree / "last")
        assert count.on_loop == MANY + 1
        assert count.most <= STEPS
        (elsewhere / "7" / "unseen").touch()
        (tree / "end").touch()
        await told.until(tree / "end")
        assert told.paths == {str(tree / name) for name in ("many", "last", "end")}


async def test_a_rename_within_the_tree_is_followed_in_bounded_turns(tmp_path: Path) -> None:
    make_many(tmp_path / "old")
    async with watching(tmp_path) as (_, told, _):
        with counted(WatchSet, "listen") as listened, counted(WatchSet, "forget") as forgotten:
            (tmp_path / "old").rename(tmp_path / "new")
            await told.until(*(tmp_path / "new" / str(number) for number in range(MANY)))
            (tmp_path / "new" / "7" / "file").touch()
            await told.until(tmp_path / "new" / "7" / "file")
        assert max(listened.most, forgotten.most) <= STEPS
        assert not any("/old/" in path for path in told.paths)


async def test_the_end_of_a_large_watch_is_the_work_of_a_thread(tmp_path: Path) -> None:
    make_many(tmp_path / "many")
    async with watching(tmp_path) as (watches, _, _):
        with counted(Inotify, "remove") as removed, counted(WatchSet, "forget") as forgotten:
            watches.unwatch(1)
            # Another watch of the same connection begins when the first is cleared away.
            (tmp_path / "small").mkdir()
            small = parse_path(str(tmp_path / "small"))
            while removed.elsewhere < MANY + 2:
                await watches.watch(small, bytes(tmp_path / "small"), is_recursive=False)
                watches.unwatch(watches._last_id)
        assert removed.on_loop == 0
        assert forgotten.most <= STEPS


async def test_the_end_of_a_connection_closes_its_queue_in_a_thread(tmp_path: Path) -> None:
    make_many(tmp_path / "many")
    with counted(Inotify, "close") as closed:
        async with watching(tmp_path):
            pass
    assert (closed.on_loop, closed.elsewhere) == (0, 1)


def queue_descriptor() -> int:
    """The inotify queue of this process."""
    links = ((int(fd), f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    [found] = [fd for fd, link in links if os.path.lexists(link) and "inotify" in os.readlink(link)]
    return found


@pytest.mark.parametrize("turns", range(12))
async def test_a_descriptor_is_closed_once_whenever_the_last_look_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """The number may be that of an honest client's pipe by the time of a second close."""
    async with watching(tmp_path) as (watches, _, lanes):
        queue, closes = queue_descriptor(), []
        is_held, is_closed = asyncio.Event(), asyncio.Event()
        held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        submit, close, loop = lanes.bulk.submit, os.close, asyncio.get_running_loop()

        def hold_first(job: Callable[[], Any]) -> asyncio.Future[Any]:
            if held:
                return submit(job)
            held.append((job, loop.create_future()))
            is_held.set()
            return held[0][1]

        def count(descriptor: int) -> None:
            if descriptor == queue:
                closes.append(descriptor)
                loop.call_soon_threadsafe(is_closed.set)
            if descriptor != queue or len(closes) == 1:
                close(descriptor)

        monkeypatch.setattr(lanes.bulk, "submit", hold_first)
        monkeypatch.setattr(os, "close", count)
        (tmp_path / "new").mkdir()
        await is_held.wait()
        closing = asyncio.ensure_future(watches.aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        job, future = held[0]
        future.set_result(job())
        await closing
        await is_closed.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert closes == [queue]

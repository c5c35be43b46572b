"""A watch while the server is short of descriptors or threads leaves no directory out for good."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from paddock.errors import OperationFailed
from paddock.fs import watch_look, watch_tree
from paddock.fs.lane import Lane
from paddock.fs.lanes import Lanes
from paddock.fs.resolve import open_directory
from paddock.fs.watch_set import WatchSet
from paddock.fs.watch_tree import TreeWatch
from paddock.inotify import Inotify, Notice, RawNotice
from tests.processes import open_descriptors


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what waits for room tried again soon."""
    monkeypatch.setattr(watch_tree, "RETRY_S", 0.01)


class Shortage:
    """While it lasts, there is no descriptor for a directory of a given name, or to list it."""

    def __init__(self, name: bytes, *, is_of_listing: bool) -> None:
        self.is_on = True
        self._is_met = threading.Semaphore(0)
        self._name = name
        self._is_of_listing = is_of_listing
        self._open = os.open

    async def meet(self, times: int) -> None:
        """Wait until somebody has met it so often."""
        for _ in range(times):
            await asyncio.to_thread(self._is_met.acquire)

    def open_directory(self, path: bytes) -> int:
        if not self._is_of_listing:
            self._meet(path)
        return open_directory(path)

    def open(self, path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if self._is_of_listing and path == b"." and dir_fd is not None:
            self._meet(os.readlink(b"/proc/self/fd/%d" % dir_fd))
        return self._open(path, flags, mode, dir_fd=dir_fd)

    def _meet(self, path: bytes) -> None:
        if self.is_on and os.path.basename(path) == self._name:
            self._is_met.release()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture(name="shortage", params=[False, True], ids=["opening", "listing"])
def shortage_of_descriptors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shortage:
    shortage = Shortage(b"short", is_of_listing=request.param)
    monkeypatch.setattr(watch_look, "open_directory", shortage.open_directory)
    monkeypatch.setattr(os, "open", shortage.open)
    return shortage


class Watched:
    """A watch, and what it has told."""

    def __init__(self, watches: WatchSet, tree: Path) -> None:
        self._has_changed = asyncio.Event()
        self.watch = TreeWatch(watches, bytes(tree), self._has_changed.set, is_recursive=True)
        self.paths: set[bytes] = set()
        self.overflows = 0

    async def next(self) -> None:
        await self._has_changed.wait()
        self._has_changed.clear()
        batch = self.watch.take()
        self.paths |= {path for path, _ in batch.changes}
        self.overflows += batch.is_overflowed

    async def until_overflowed(self, times: int) -> None:
        while self.overflows < times:
            await self.next()

    async def until(self, path: Path) -> None:
        while bytes(path) not in self.paths:
            await self.next()


async def test_a_watch_that_begins_without_room_for_a_directory_fails(
    tmp_path: Path, watches: WatchSet, shortage: Shortage
) -> None:
    (tmp_path / "a/short/b").mkdir(parents=True)
    watched = Watched(watches, tmp_path)
    with pytest.raises(OperationFailed, match="Too many open files"):
        await watched.watch.begin()


async def test_a_directory_that_appears_without_room_is_watched_when_there_is_some(
    tmp_path: Path, watches: WatchSet, shortage: Shortage
) -> None:
    watched = Watched(watches, tmp_path)
    await watched.watch.begin()
    (tmp_path / "short/deep").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    await watched.until_overflowed(1)
    await shortage.meet(3)
    assert watched.overflows == 1
    shortage.is_on = False
    await watched.until_overflowed(2)
    for name in ("short/deep/file", "other/file"):
        (tmp_path / name).touch()
        await watched.until(tmp_path / name)
    watched.watch.end()


async def test_a_root_for_which_there_is_no_room_is_not_taken_for_removed(
    tmp_path: Path, watches: WatchSet, shortage: Shortage, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "short"
    tree.mkdir()
    shortage.is_on = False
    watched = Watched(watches, tree)
    await watched.watch.begin()
    shortage.is_on = True
    read = Inotify.read

    def lose(inotify: Inotify) -> list[RawNotice]:
        read(inotify)
        monkeypatch.setattr(Inotify, "read", read)
        return [RawNotice(-1, Notice.Q_OVERFLOW, b"")]

    monkeypatch.setattr(Inotify, "read", lose)
    (tree / "lost").touch()
    await shortage.meet(2)
    shortage.is_on = False
    while watched.watch._is_rebuilding:
        await watched.next()
    (tree / "file").touch()
    await watched.until(tree / "file")
    assert not watched.watch.is_ended
    assert bytes(tree) not in watched.paths
    watched.watch.end()


async def test_a_directory_for_which_there_is_no_thread_is_watched_when_there_is_one(
    tmp_path: Path, lanes: Lanes, watches: WatchSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(watches, tmp_path)
    await watched.watch.begin()
    # There is a thread already, but none of a new lane.
    await lanes.bulk.aclose()
    lanes.bulk = Lane("paddock-fs-bulk", 1)
    start = threading.Thread.start

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    (tmp_path / "new").mkdir()
    await watched.until_overflowed(1)
    monkeypatch.setattr(threading.Thread, "start", start)
    await watched.until_overflowed(2)
    (tmp_path / "new/file").touch()
    await watched.until(tmp_path / "new/file")
    watched.watch.end()


async def test_a_queue_that_the_loop_can_not_wait_for_is_closed(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, before, tasks = asyncio.get_running_loop(), open_descriptors(), asyncio.all_tasks()

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(loop, "add_reader", refuse)
    with pytest.raises(OperationFailed, match="max_user_watches"):
        WatchSet(lanes)
    assert open_descriptors() == before
    assert asyncio.all_tasks() == tasks

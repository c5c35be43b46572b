"""The inotify queue of a client, and who hears what from it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.errors import OperationFailed, RequestError
from paddock.fs.watch_set import Subscription, WatchSet
from paddock.fs.watch_tree import TreeWatch
from paddock.inotify import Inotify, Notice, RawNotice


class Listener:
    """Adds one directory, and remembers what it is told of it."""

    def __init__(self, watches: WatchSet, look: Callable[[], int]) -> None:
        self.names: list[bytes] = []
        self.has_heard = asyncio.Event()
        self._watches = watches
        self._look: Callable[[], int] | None = look
        self._subscription = Subscription(watches.join(self))
        watches.want_look(self._subscription.subscriber)

    def heard(self, subscription: Subscription, notice: RawNotice) -> Iterator[None]:
        self.names.append(notice.name)
        self.has_heard.set()
        yield

    def overflowed(self) -> Iterator[None]:
        raise AssertionError("nothing was lost")

    def next_look(self) -> Callable[[], int] | None:
        look, self._look = self._look, None
        return look

    def looked(self, watch: int) -> Iterator[None]:
        self._watches.listen(watch, self._subscription)
        yield

    def look_failed(self, problem: RequestError) -> None:
        raise problem


async def test_notices_that_come_before_their_listener_is_known_are_heard(
    tmp_path: Path, watches: WatchSet
) -> None:
    def add() -> int:
        watch = watches.inotify.add(bytes(tmp_path))
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        return watch

    listener = Listener(watches, add)
    while listener.names != [b"a", b"b"]:
        await listener.has_heard.wait()
        listener.has_heard.clear()


async def test_after_lost_notices_the_tree_is_found_anew(
    tmp_path: Path, watches: WatchSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "moved").mkdir(parents=True)
    (tree / "kept").mkdir()
    has_changed = asyncio.Event()
    watch = TreeWatch(watches, bytes(tree), has_changed.set, is_recursive=True)
    await watch.begin()
    take = Inotify.read

    def lose(inotify: Inotify) -> list[RawNotice]:
        take(inotify)
        monkeypatch.setattr(Inotify, "read", take)
        return [RawNotice(-1, Notice.Q_OVERFLOW, b"")]

    monkeypatch.setattr(Inotify, "read", lose)
    (tree / "moved").rename(outside)
    (tree / "made").mkdir()
    overflows = 0
    # When it is noticed, and when everything is watched again.
    while overflows < 2:
        await has_changed.wait()
        has_changed.clear()
        overflows += watch.take().is_overflowed

    (outside / "unseen").touch()
    (tree / "made" / "a").touch()
    (tree / "kept" / "b").touch()
    told: set[bytes] = set()
    while not told >= {bytes(tree / "made/a"), bytes(tree / "kept/b")}:
        await has_changed.wait()
        has_changed.clear()
        told |= {path for path, _ in watch.take().changes}
    assert told == {bytes(tree / "made/a"), bytes(tree / "kept/b")}
    watch.end()


async def test_another_directory_in_place_of_the_root_ends_the_watch_when_notices_were_lost(
    tmp_path: Path, watches: WatchSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    has_changed = asyncio.Event()
    watch = TreeWatch(watches, bytes(tree), has_changed.set, is_recursive=True)
    await watch.begin()
    take = Inotify.read

    def lose(inotify: Inotify) -> list[RawNotice]:
        take(inotify)
        return [RawNotice(-1, Notice.Q_OVERFLOW, b"")]

    monkeypatch.setattr(Inotify, "read", lose)
    tree.rename(tmp_path / "other")
    tree.mkdir()
    while not watch.is_ended:
        await has_changed.wait()
        has_changed.clear()


async def test_a_look_for_which_there_is_no_thread_fails_the_watch_and_no_later_one(
    tmp_path: Path, watches: WatchSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(OperationFailed, match="could start no thread"):
        await TreeWatch(watches, bytes(tmp_path), lambda: None, is_recursive=True).begin()
    monkeypatch.setattr(threading.Thread, "start", start)
    watch = TreeWatch(watches, bytes(tmp_path), lambda: None, is_recursive=True)
    await watch.begin()
    watch.end()

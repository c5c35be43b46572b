"""The inotify queue of a client, and who hears what from it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from paddock.fs import watch_set
from paddock.fs.local import Lanes
from paddock.fs.watch_set import WatchSet
from paddock.inotify import RawNotice


class Heard:
    """A subscriber that remembers what it was told."""

    def __init__(self) -> None:
        self.names: list[bytes] = []
        self.overflows = 0

    def heard(self, directory: bytes, notice: RawNotice) -> None:
        self.names.append(notice.name)

    def overflowed(self) -> None:
        self.overflows += 1


@pytest.mark.parametrize(("kept", "names", "overflows"), [(2, [b"a", b"b"], 0), (1, [b"a"], 1)])
async def test_notices_that_come_before_their_listener_are_kept_or_said_to_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, names: list[bytes], overflows: int
) -> None:
    monkeypatch.setattr(watch_set, "MAX_EARLY_NOTICES", kept)
    lanes, listener, are_read = Lanes(), Heard(), threading.Event()
    watches = WatchSet(lanes)
    take = watches.inotify.read

    def read() -> list[RawNotice]:
        notices = take()
        if any(notice.name == b"b" for notice in notices):
            are_read.set()
        return notices

    def add() -> int:
        watch = watches.inotify.add(bytes(tmp_path))
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        are_read.wait()
        return watch

    monkeypatch.setattr(watches.inotify, "read", read)
    try:
        await watches.scan(add, lambda watch: watches.listen(watch, listener, bytes(tmp_path)))
    finally:
        await watches.aclose()
        await lanes.aclose()
    assert listener.names == names
    assert listener.overflows == overflows

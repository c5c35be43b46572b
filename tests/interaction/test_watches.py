"""`fs/watch` and `fs/watchMissing`: a client is told of changes to files, and only of those it asked for."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paddock.fs import changes, watch_tree
from paddock.fs.lanes import Lanes
from paddock.fs.watch_missing import MissingWatch, _Expected
from paddock.fs.watch_set import WatchSet
from paddock.inotify import Inotify, Notice, parse
from paddock.protocol.path import parse_path
from paddock.protocol.structure import Result
from paddock.protocol.watch import ChangedEvent
from paddock.server.watches import ClientWatches
from paddock.transport.limits import TransportLimits
from tests.wire import Message, WireClient, WireError, attach, served, session


async def watch(client: WireClient, path: Path, *, recursive: bool = False) -> int:
    result = await client.call("fs/watch", {"path": str(path), "recursive": recursive})
    watch_id: int = result["watchId"]
    return watch_id


async def changed(client: WireClient) -> Message:
    """The next notification of changes."""
    params: Message = (await client.take(lambda message: message.get("method") == "fs/changed"))["params"]
    return params


async def changes_until(client: WireClient, last: Path) -> dict[str, set[str]]:
    """Every change up to the one of `last`: paths and what became of them."""
    found: dict[str, set[str]] = {}
    while str(last) not in found:
        for event in (await changed(client))["events"]:
            found.setdefault(event["path"], set()).add(event["kind"])
    return found


async def test_changes_in_a_directory_are_told_and_those_below_it_are_not(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    (tmp_path / "below").mkdir()
    async with session() as client:
        await watch(client, tmp_path)
        (tmp_path / "below/deep").write_text("x")
        (tmp_path / "old").unlink()
        (tmp_path / "new").write_text("x")
        found = await changes_until(client, tmp_path / "new")

    assert found == {str(tmp_path / "old"): {"deleted"}, str(tmp_path / "new"): {"created"}}


async def test_paths_are_told_in_the_form_in_which_they_were_given(tmp_path: Path) -> None:
    async with session() as client:
        await client.call("fs/watch", {"path": f"file://{tmp_path}"})
        (tmp_path / "a b").touch()
        assert (await changed(client))["events"][0]["path"] == f"file://{tmp_path}/a%20b"


async def test_a_tree_that_appears_in_a_watched_tree_is_told_with_everything_in_it(tmp_path: Path) -> None:
    async with session() as client:
        await watch(client, tmp_path, recursive=True)
        for number in range(20):
            deep = tmp_path / f"{number}/a/b/c"
            deep.mkdir(parents=True)
            (deep / "file").touch()
        (tmp_path / "last").touch()
        expected = {str(tmp_path / f"{number}/a/b/c/file") for number in range(20)}
        found: set[str] = set()
        while not found >= expected:
            found |= {event["path"] for event in (await changed(client))["events"]}
        # And the directories are watched themselves now.
        (tmp_path / "7/a/b/c/later").touch()
        await changes_until(client, tmp_path / "7/a/b/c/later")


async def test_an_edit_is_told_as_a_modification_without_its_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    async with session() as client:
        await watch(client, tmp_path, recursive=True)
        edits = [{"old": "old", "new": "new"}]
        await client.call("fs/edit", {"path": str(tmp_path / "file"), "edits": edits})
        (tmp_path / "last").touch()
        found = await changes_until(client, tmp_path / "last")

    assert found == {str(tmp_path / "file"): {"modified"}, str(tmp_path / "last"): {"created"}}


async def test_a_moved_directory_is_told_under_its_new_path_only(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "old/deep").mkdir(parents=True)
    outside.mkdir()
    async with session() as client:
        await watch(client, tree, recursive=True)
        (tree / "old").rename(tree / "new")
        await changes_until(client, tree / "new/deep")
        (tree / "new/deep/file").touch()
        found = await changes_until(client, tree / "new/deep/file")
        assert not any("/old/" in path for path in found)

        (tree / "new").rename(outside / "new")
        assert (await changes_until(client, tree / "new"))[str(tree / "new")] == {"deleted"}
        (outside / "new/deep/unseen").touch()
        (tree / "last").touch()
        assert set(await changes_until(client, tree / "last")) == {str(tree / "last")}


async def test_a_file_stays_watched_when_it_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    async with session() as client:
        await watch(client, file, recursive=True)
        (tmp_path / "neighbour").touch()
        for content in ("two", "three"):
            (tmp_path / "next").write_text(content)
            (tmp_path / "next").rename(file)
            assert {event["path"] for event in (await changed(client))["events"]} == {str(file)}
        file.unlink()
        assert (await changes_until(client, file))[str(file)] >= {"deleted"}


async def test_the_end_of_the_watched_directory_is_told_and_ends_the_watch(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    async with session() as client:
        watch_id = await watch(client, root, recursive=True)
        shutil.rmtree(root)
        assert (await changes_until(client, root))[str(root)] == {"deleted"}
        root.mkdir()
        (root / "file").touch()
        other = await watch(client, tmp_path)
        (tmp_path / "last").touch()
        event = await changed(client)
        assert (event["watchId"], watch_id) == (other, watch_id)
        await client.call("fs/unwatch", {"watchId": watch_id})


async def test_nothing_is_told_after_the_end_of_a_watch_and_other_watches_go_on(tmp_path: Path) -> None:
    async with session() as client:
        first = await watch(client, tmp_path, recursive=True)
        second = await watch(client, tmp_path)
        assert await client.call("fs/unwatch", {"watchId": first}) == {}
        (tmp_path / "file").touch()
        assert (await changed(client))["watchId"] == second


async def test_only_the_client_that_asked_is_told(tmp_path: Path) -> None:
    async with served() as server:
        asking, other = attach(server), attach(server)
        await asking.initialize()
        await other.initialize()
        await watch(asking, tmp_path)
        (tmp_path / "file").touch()
        await changed(asking)
        await other.call("environment/status")
        assert not other.unread


async def test_more_changes_than_are_remembered_are_an_overflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MAX_PATHS", 10)
    async with session() as client:
        await watch(client, tmp_path)
        for number in range(50):
            (tmp_path / str(number)).touch()
        event = await changed(client)
        assert event["overflow"]
        assert len(event["events"]) == 10


async def test_changes_wait_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    async with served(send_buffer_bytes=64 * 1024) as server:
        client = attach(server, TransportLimits(write_high_water_bytes=64 * 1024))
        await client.initialize()
        await watch(client, tmp_path)
        client.link.pause_reading()
        for _ in range(2000):
            client.request("environment/info")
        for number in range(3000):
            (tmp_path / str(number)).touch()
        other = attach(server)
        await other.initialize()
        assert client.server_link.buffered_bytes < 9 * 64 * 1024
        client.link.resume_reading()
        paths: set[str] = set()
        while len(paths) < 3000:
            event = await changed(client)
            assert not event["overflow"]
            paths |= {change["path"] for change in event["events"]}


async def test_a_tree_with_too_many_directories_is_refused_and_leaves_nothing_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_tree, "MAX_DIRECTORIES", 3)
    for name in "abcd":
        (tmp_path / name).mkdir()
    async with session() as client:
        with pytest.raises(WireError, match="more than 3 directories"):
            await watch(client, tmp_path, recursive=True)
        await watch(client, tmp_path / "a")
        (tmp_path / "b/file").touch()
        (tmp_path / "a/file").touch()
        assert set(await changes_until(client, tmp_path / "a/file")) == {str(tmp_path / "a/file")}


async def test_what_does_not_exist_can_not_be_watched(tmp_path: Path) -> None:
    async with session() as client:
        with pytest.raises(WireError, match="No such file") as refusal:
            await watch(client, tmp_path / "nothing")
        assert refusal.value.code == -32004


async def test_the_limit_of_the_host_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Inotify, _path: bytes, *, follow: bool = False) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Inotify, "add", refuse)
    async with session() as client:
        with pytest.raises(WireError, match=r"raise fs\.inotify\.max_user_watches"):
            await watch(client, tmp_path)


async def test_watches_end_with_their_connection(tmp_path: Path) -> None:
    def queues() -> int:
        links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return sum("inotify" in os.readlink(link) for link in links if os.path.lexists(link))

    before = queues()
    async with served() as server:
        client = attach(server)
        await client.initialize()
        await watch(client, tmp_path, recursive=True)
        assert queues() == before + 1
        client.link.abort()
        await client.closed()
        await server.quiet()
        # A watch lets go of its directories in turns of the loop.
        for _ in range(1000):
            await asyncio.sleep(0)
        assert queues() == before


# --- watchMissing -----------------------------------------------------------


async def watch_missing(client: WireClient, watch_id: int, *missing: Path, **params: Any) -> bool:
    request = {"watchId": watch_id, "missing": [str(path) for path in missing], **params}
    watching: bool = (await client.call("fs/watchMissing", request))["watching"]
    return watching


async def missing_changed(client: WireClient) -> int:
    message = await client.take(lambda message: message.get("method") == "fs/missingChanged")
    watch_id: int = message["params"]["watchId"]
    return watch_id


async def test_a_path_that_appears_is_told_once(tmp_path: Path) -> None:
    async with session() as client:
        assert await watch_missing(client, 3, tmp_path / "a/b/c", tmp_path / "d")
        (tmp_path / "a").mkdir()
        (tmp_path / "a/b").mkdir()
        (tmp_path / "a/b/c").touch()
        assert await missing_changed(client) == 3
        (tmp_path / "d").touch()
        assert await watch_missing(client, 4, tmp_path / "e")
        (tmp_path / "e").touch()
        assert await missing_changed(client) == 4


async def test_a_path_that_vanishes_is_told(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    async with session() as client:
        assert await watch_missing(client, 5, tmp_path / "x", present=str(tmp_path / "there"))
        (tmp_path / "there").unlink()
        assert await missing_changed(client) == 5


async def test_a_later_watch_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    async with session() as client:
        assert await watch_missing(client, 6, tmp_path / "a")
        assert await watch_missing(client, 7, tmp_path / "b")
        (tmp_path / "a").touch()
        (tmp_path / "b").touch()
        assert await missing_changed(client) == 7


async def test_what_is_not_as_the_client_says_is_not_watched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    async with session() as client:
        assert not await watch_missing(client, 1)
        assert not await watch_missing(client, 1, tmp_path / "file")
        assert not await watch_missing(client, 1, tmp_path / "dangling")
        assert not await watch_missing(client, 1, tmp_path / "file/below")
        assert not await watch_missing(client, 1, tmp_path / "x", present=str(tmp_path / "y"))
        assert not await watch_missing(client, 1, Path("/proc/nothing"))
        assert not (await client.call("fs/watchMissing", {"watchId": 1, "missing": ["file://host/x"]}))[
            "watching"
        ]


async def test_many_paths_far_below_what_exists_are_looked_at_in_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In looks between which others have their turn."""
    paths = [tmp_path / ("a/" * 800 + str(number)) for number in range(200)]
    calls, looks = 0, []
    add, stat, look = Inotify.add, os.stat, MissingWatch._look

    def counted_add(*args: Any, **options: Any) -> int:
        nonlocal calls
        calls += 1
        return add(*args, **options)

    def counted_stat(*args: Any, **options: Any) -> os.stat_result:
        nonlocal calls
        calls += 1
        return stat(*args, **options)

    def counted_look(watch: MissingWatch, chosen: Sequence[_Expected]) -> Any:
        looks.append(len(chosen))
        return look(watch, chosen)

    monkeypatch.setattr(Inotify, "add", counted_add)
    monkeypatch.setattr(os, "stat", counted_stat)
    monkeypatch.setattr(MissingWatch, "_look", counted_look)
    async with session() as client:
        assert await watch_missing(client, 1, *paths)
        assert calls < 200 * 20
        assert (sum(looks), max(looks)) == (200, 32)
        # All of them are watched: the last, too.
        (tmp_path / "a").mkdir()
        await client.call("environment/status")
        assert await watch_missing(client, 2, *paths[:40], tmp_path / "b")
        (tmp_path / "b").touch()
        assert await missing_changed(client) == 2


async def test_a_look_for_missing_paths_ends_with_its_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = Lanes()
    watches = WatchSet(lanes)
    looked_at: list[bytes] = []

    def end_at_second(watch: MissingWatch, directory: bytes) -> int:
        looked_at.append(directory)
        if len(looked_at) == 2:
            # As the end of a connection does, which comes at any moment.
            watch._is_over = True
        return watches.inotify.add(bytes(tmp_path))

    monkeypatch.setattr(MissingWatch, "_add_nearest", end_at_second)
    missing = [bytes(tmp_path / str(number)) for number in range(20)]
    watch = MissingWatch(watches, missing, None, lambda: None)
    watch._look([_Expected(path, is_there=False) for path in missing])
    assert len(looked_at) == 2
    await watches.aclose()
    await lanes.aclose()


# --- parts ------------------------------------------------------------------


def test_notices_are_taken_apart() -> None:
    overflow = (-1).to_bytes(4, "little", signed=True) + (0x4000).to_bytes(4, "little") + bytes(8)
    created = (
        b"\1\0\0\0" + (0x100).to_bytes(4, "little") + bytes(4) + b"\x10\0\0\0" + b"name".ljust(16, b"\0")
    )
    first, second = parse(overflow + created)
    assert (first.watch, first.mask) == (-1, Notice.Q_OVERFLOW)
    assert (second.watch, second.mask, second.name) == (1, Notice.CREATE, b"name")


class Told:
    """A client that keeps what it is told of, and when."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.has_come = asyncio.Event()

    def notify(self, method: str, params: Result) -> None:
        assert isinstance(params, ChangedEvent)
        self.paths += [change.path for change in params.events]
        self.has_come.set()

    async def caught_up(self) -> None:
        pass


async def test_a_watch_that_is_ended_while_it_begins_disturbs_no_other(tmp_path: Path) -> None:
    path, told, lanes = parse_path(str(tmp_path)), Told(), Lanes()
    watches = ClientWatches(told, lanes)
    try:
        watches.announce(await watches.watch(path, bytes(tmp_path), is_recursive=False))
        beginning = asyncio.create_task(watches.watch(path, bytes(tmp_path), is_recursive=False))
        await asyncio.sleep(0)
        watches.unwatch(2)
        watches.announce(await beginning)

        (tmp_path / "first").touch()
        await told.has_come.wait()
        told.has_come.clear()
        (tmp_path / "second").touch()
        await told.has_come.wait()
    finally:
        await watches.aclose()
        await lanes.aclose()
    assert told.paths == [str(tmp_path / "first"), str(tmp_path / "second")]

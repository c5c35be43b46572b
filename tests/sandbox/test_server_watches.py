"""Watches under a profile tell of what the profile shows, and of nothing else."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from paddock.fs.watch_look import TreeLook
from paddock.fs.watch_tree import TreeWatch
from paddock.inotify import Inotify
from tests.sandbox.profiles import MINIMAL, READ_ONLY, ROOT, entry, sandbox
from tests.wire import Message, WireClient, WireError, session

Json = dict[str, Any]


@pytest.fixture(name="workspace")
def workspace_of_the_test(new_directory: Path) -> Path:
    """Two directories and two files, of each the second is denied."""
    for name in ("open", "closed"):
        (new_directory / name).mkdir()
        (new_directory / f"{name}.txt").write_text("before")
    return new_directory


def half_denied(workspace: Path) -> Json:
    return sandbox(
        entry(ROOT, "read"), entry(workspace / "closed", "deny"), entry(workspace / "closed.txt", "deny")
    )


async def told(client: WireClient, last: Path) -> list[str]:
    """The paths that have changed, up to this one."""
    paths: list[str] = []
    while str(last) not in paths:
        event: Message = await client.take(lambda message: message.get("method") == "fs/changed")
        paths += [change["path"] for change in event["params"]["events"]]
        assert not event["params"]["overflow"]
    return paths


async def refusal(client: WireClient, path: Path, wanted: Json) -> int:
    with pytest.raises(WireError) as refused:
        await client.call("fs/watch", {"path": str(path), "sandbox": wanted})
    return refused.value.code


@pytest.mark.parametrize("is_recursive", [False, True])
async def test_changes_of_what_is_denied_are_not_told(workspace: Path, is_recursive: bool) -> None:
    async with session() as client:
        params = {"path": str(workspace), "recursive": is_recursive, "sandbox": half_denied(workspace)}
        await client.call("fs/watch", params)
        (workspace / "closed.txt").write_text("after")
        (workspace / "closed" / "made").write_text("x")
        (workspace / "closed").chmod(0o700)
        (workspace / "open" / "made").write_text("x")
        (workspace / "open.txt").write_text("after")
        seen = await told(client, workspace / "open.txt")
    expected = {str(workspace / "open.txt"), *([str(workspace / "open" / "made")] if is_recursive else [])}
    assert set(seen) == expected


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o055])
async def test_a_watch_shows_no_directory_that_no_command_can_open(workspace: Path, mode: int) -> None:
    closed = workspace / "closed"
    closed.chmod(mode)
    everything = {"path": str(workspace), "recursive": True}
    async with session() as client:
        assert await refusal(client, closed, READ_ONLY) == -32600
        await client.call("fs/watch", everything | {"sandbox": READ_ONLY})
        if os.geteuid() == 0:
            (closed / "made").write_text("x")
        (workspace / "open.txt").write_text("after")
        assert set(await told(client, workspace / "open.txt")) == {str(workspace / "open.txt")}
        if os.geteuid() == 0:
            await client.call("fs/watch", {"path": str(closed)})
    closed.chmod(0o700)


async def test_what_is_made_later_and_a_pattern_denies_is_not_told(workspace: Path) -> None:
    denied: Json = {"path": {"type": "glob_pattern", "pattern": f"{workspace}/**/*.env"}, "access": "deny"}
    granted = workspace / "old.env" / "granted"
    granted.mkdir(parents=True)
    async with session() as client:
        wanted = sandbox(entry(ROOT, "read"), denied, entry(granted, "read"))
        for path in (workspace, granted):
            await client.call("fs/watch", {"path": str(path), "recursive": True, "sandbox": wanted})
        (workspace / "made.env").write_text("x")
        (workspace / "open" / "new.env" / "deeper").mkdir(parents=True)
        (workspace / "open" / "new.env" / "deeper" / "secret").write_text("x")
        (granted / "made").mkdir()
        assert set(await told(client, granted / "made")) == {str(granted / "made")}
        (workspace / "open" / "env").write_text("x")
        (workspace / "open.txt").write_text("after")
        seen = await told(client, workspace / "open.txt")
    assert set(seen) == {str(workspace / "open" / "env"), str(workspace / "open.txt")}


async def test_what_is_moved_out_of_sight_is_told_once_and_not_followed(workspace: Path) -> None:
    (workspace / "open" / "inner").mkdir()
    async with session() as client:
        params = {"path": str(workspace), "recursive": True, "sandbox": half_denied(workspace)}
        await client.call("fs/watch", params)
        (workspace / "open" / "inner").rename(workspace / "closed" / "inner")
        (workspace / "closed" / "inner" / "secret").write_text("x")
        (workspace / "open.txt").write_text("after")
        assert set(await told(client, workspace / "open.txt")) == {
            str(workspace / "open" / "inner"),
            str(workspace / "open.txt"),
        }


async def test_a_link_shows_nothing_that_the_profile_does_not(workspace: Path) -> None:
    (workspace / "open" / "link").symlink_to(workspace / "closed")
    async with session() as client:
        wanted = half_denied(workspace)
        for path in (workspace / "open" / "link", workspace / "open" / "link" / "inner"):
            assert await refusal(client, path, wanted) == -32600
        await client.call("fs/watch", {"path": str(workspace / "open"), "recursive": True, "sandbox": wanted})
        (workspace / "closed" / "made").write_text("x")
        (workspace / "open" / "made").write_text("x")
        assert set(await told(client, workspace / "open" / "made")) == {str(workspace / "open" / "made")}


async def test_a_watch_of_what_is_denied_fails_as_reading_it_does(workspace: Path) -> None:
    async with session() as client:
        for wanted, code in (
            (half_denied(workspace), -32600),
            (sandbox(entry(MINIMAL, "read"), entry(workspace / "open", "read")), -32004),
        ):
            assert await refusal(client, workspace / "closed", wanted) == code
        assert await refusal(client, workspace / "nothing", READ_ONLY) == -32004


async def test_a_file_is_watched_though_its_directory_is_denied(workspace: Path) -> None:
    wanted = sandbox(entry(ROOT, "read"), entry(workspace, "deny"), entry(workspace / "open.txt", "read"))
    async with session() as client:
        await client.call("fs/watch", {"path": str(workspace / "open.txt"), "sandbox": wanted})
        (workspace / "closed.txt").write_text("after")
        (workspace / "open.txt").write_text("after")
        assert set(await told(client, workspace / "open.txt")) == {str(workspace / "open.txt")}


@pytest.mark.parametrize("exchanged", ["open", "open/one", "open/one/two"])
async def test_names_of_what_is_denied_are_not_told_when_a_directory_is_exchanged_for_a_link(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, exchanged: str
) -> None:
    """Between the moment when a directory is judged and that when it is listed, at each level of its path."""
    deepest = Path("one/two/three")
    (workspace / "closed" / deepest).mkdir(parents=True)
    for level in (Path(), *deepest.parents, deepest):
        (workspace / "closed" / level / "secret").touch()
    (workspace / "open").rmdir()
    add = Inotify.add

    def add_and_exchange(queue: Inotify, path: bytes, *, follow: bool = False) -> int:
        watch = add(queue, path, follow=follow)
        place = workspace / exchanged
        if os.path.realpath(os.fsdecode(path)) == str(place):
            place.rename(workspace / "aside")
            place.symlink_to(workspace / "closed" / Path(exchanged).relative_to("open"))
        return watch

    async with session() as client:
        params = {"path": str(workspace), "recursive": True, "sandbox": half_denied(workspace)}
        await client.call("fs/watch", params)
        # What appears is listed, and everything found in it is told.
        (workspace / "made" / deepest).mkdir(parents=True)
        monkeypatch.setattr(Inotify, "add", add_and_exchange)
        (workspace / "made").rename(workspace / "open")
        seen = await told(client, workspace / "open")
        while not (workspace / exchanged).is_symlink():
            await client.call("environment/status")
        # Looks come one after the other: when there is a second watch, the first has told what it found.
        await client.call("fs/watch", {"path": str(workspace / "aside")})
        (workspace / "open.txt").write_text("after")
        seen += await told(client, workspace / "open.txt")
    assert not [path for path in seen if "secret" in path]


async def test_nothing_is_told_of_a_watched_directory_once_one_above_it_is_moved(workspace: Path) -> None:
    """Neither of the two gives a notice of that itself."""
    (workspace / "open" / "above" / "watched").mkdir(parents=True)
    async with session() as client:
        watched = workspace / "open" / "above" / "watched"
        params = {"path": str(watched), "sandbox": half_denied(workspace)}
        await client.call("fs/watch", params)
        (workspace / "open" / "above").rename(workspace / "closed" / "above")
        (workspace / "closed" / "above" / "watched" / "secret").touch()
        assert await told(client, watched) == [str(watched)]


async def test_a_missing_path_is_waited_for_where_it_may_be_seen(workspace: Path) -> None:
    wanted = half_denied(workspace)
    async with session() as client:
        for directory, is_watching in ((workspace / "closed", False), (workspace / "open", True)):
            params = {"watchId": 1, "missing": [str(directory / "new")], "sandbox": wanted}
            assert (await client.call("fs/watchMissing", params))["watching"] is is_watching
        (workspace / "open" / "new").touch()
        await client.take(lambda message: message.get("method") == "fs/missingChanged")


@pytest.mark.parametrize(("mode", "name"), [(0o000, "new"), (0o300, "new"), (0o055, "inner/new")])
async def test_a_missing_path_where_no_command_can_look_is_the_clients_to_look_at(
    workspace: Path, mode: int, name: str
) -> None:
    closed = workspace / "closed"
    (closed / "inner").mkdir()
    closed.chmod(mode)
    params = {"watchId": 1, "missing": [str(closed / name)], "sandbox": READ_ONLY}
    async with session() as client:
        assert (await client.call("fs/watchMissing", params))["watching"] is False
    closed.chmod(0o700)


async def test_a_missing_path_behind_a_link_is_the_clients_to_look_at(workspace: Path) -> None:
    (workspace / "open" / "link").symlink_to(workspace / "open")
    params = {"watchId": 1, "missing": [str(workspace / "open" / "link" / "new")]}
    async with session() as client:
        assert (await client.call("fs/watchMissing", params))["watching"] is True
        confined = params | {"sandbox": half_denied(workspace)}
        assert (await client.call("fs/watchMissing", confined))["watching"] is False


@pytest.mark.parametrize("is_late", [False, True], ids=["before the look", "in the look"])
async def test_a_name_like_a_number_is_not_looked_up_behind_a_link(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """The kernel gives files without a name such names, so they are looked up before they are told."""
    for name in ("#42", "#43"):
        (workspace / "closed" / name).touch()

    def exchange() -> None:
        (workspace / "open").rename(workspace / "aside")
        (workspace / "open").symlink_to(workspace / "closed")

    async with session() as client:
        params = {"path": str(workspace), "recursive": True, "sandbox": half_denied(workspace)}
        await client.call("fs/watch", params)
        (workspace / "open" / "#41").touch()
        assert await told(client, workspace / "open" / "#41") == [str(workspace / "open" / "#41")]
        for name in ("#42", "#43"):
            (workspace / "open" / name).touch()
        if is_late:
            look = TreeLook.look_at_all

            def exchange_and_look(*args: Any) -> Any:
                if not (workspace / "aside").exists():
                    exchange()
                return look(*args)

            monkeypatch.setattr(TreeLook, "look_at_all", exchange_and_look)
        else:
            exchange()
        seen = await told(client, workspace / "aside")
        # Looks come one after the other.
        await client.call("fs/watch", {"path": str(workspace / "aside")})
        (workspace / "open.txt").write_text("after")
        seen += await told(client, workspace / "open.txt")
    assert not [path for path in seen if "open/#" in path]


async def test_a_path_that_becomes_a_link_tells_nothing_of_where_that_leads(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the question inside the sandbox and the look outside of it."""
    (workspace / "closed" / "inner").mkdir()
    (workspace / "closed" / "way").symlink_to(workspace / "open")
    targets = (
        "missing",
        "inner",
        "way",
        "inner/../../open",
        "missing/../../open",
        "../open.txt",
        "../nothing",
    )
    begin = TreeWatch.begin
    outcomes: set[str] = set()
    async with session() as client:
        for target in targets:
            place = workspace / "open" / "place"
            place.touch()

            def exchange_and_begin(
                watch: TreeWatch, place: Path = place, target: str = target
            ) -> Coroutine[Any, Any, None]:
                place.unlink()
                place.symlink_to(workspace / "closed" / target)
                return begin(watch)

            monkeypatch.setattr(TreeWatch, "begin", exchange_and_begin)
            with pytest.raises(WireError) as refused:
                await client.call("fs/watch", {"path": str(place), "sandbox": half_denied(workspace)})
            outcomes.add(str(refused.value))
            place.unlink()
        monkeypatch.setattr(TreeWatch, "begin", begin)
        # A link that stands still, and leads to what may be seen, is followed.
        for target, made in (("open", "open/made"), ("open.txt", "open.txt")):
            link = workspace / f"link-to-{target}"
            link.symlink_to(workspace / target)
            await client.call("fs/watch", {"path": str(link), "sandbox": half_denied(workspace)})
            (workspace / made).write_text("after")
            await told(client, link if target == made else link / "made")
    assert len(outcomes) == 1

"""The client's files against a real server over a real websocket."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import paddock
from paddock.errors import InvalidRequest, NotFound, OperationFailed
from paddock.model.change import ChangeKind
from paddock.protocol.path import file_uri
from paddock.sandbox.host import propagation, question
from tests.interaction.cutting_proxy import CuttingProxy
from tests.operators import PATIENCE_S
from tests.serving import serving

MIB = 1024 * 1024
AT_ONCE = paddock.ReconnectPolicy(min_delay_s=0, max_delay_s=0, attached_delay_s=0.001, new_session=False)


@pytest.fixture
async def box() -> AsyncIterator[paddock.Box]:
    async with paddock.serve() as server, paddock.connect(server.url) as box:
        yield box


def names_in(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


# --- paths ------------------------------------------------------------------


async def test_text_and_bytes_are_written_and_read(box: paddock.Box, tmp_path: Path) -> None:
    path = box.path(tmp_path) / "näme"
    assert await path.write_text("grüß\r\n") == 8
    assert await path.read_text() == "grüß\r\n"
    await path.write_bytes(b"\xff\0", atomic=True)
    assert await path.read_bytes() == b"\xff\0" == (tmp_path / "näme").read_bytes()


async def test_way_has_the_other_paths_by_which_mounts_show_what_is_on_it(
    box: paddock.Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "shown"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").touch()
    (tmp_path / "link").symlink_to("shown/tool")
    shown, work = tmp_path / "shown" / "tool", tmp_path / "work" / "tool"
    assert await box.fs.way(shown) == [str(shown)]
    table = f"1 0 8:1 / / rw - ext4 d rw\n2 1 8:1 {tmp_path}/work {tmp_path}/shown rw - ext4 d rw\n"
    monkeypatch.setattr(propagation, "read_table", table.encode)
    assert await box.fs.way(shown) == [str(work), str(shown)]
    assert await box.fs.way(tmp_path / "link") == [str(work), str(tmp_path / "link"), str(shown)]
    with pytest.raises(InvalidRequest, match="leads through more than 40 others"):
        await box.fs.way("".join(f"{tmp_path}/{number}/.." for number in range(50)))


async def test_path_may_lead_into_a_written_place_under_a_name_that_only_its_file_system_knows(
    box: paddock.Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, tool = tmp_path / "work", tmp_path / "WORK" / "tool"
    work.mkdir()
    assert await box.fs.may_lead_into(work / "tool", [tmp_path / "other", work])
    assert not await box.fs.may_lead_into(tool, [tmp_path / "other", work])
    table = f"1 0 8:1 / / rw - ext4 d rw\n2 1 0:7 / {tmp_path} rw - fuse.sshfs d rw\n"
    monkeypatch.setattr(propagation, "read_table", table.encode)
    monkeypatch.setattr(question, "read_table", table.encode)
    assert await box.fs.may_lead_into(tool, [work])
    assert not await box.fs.may_lead_into("/usr/bin/env", [work])
    # Under a profile the mounts of the host are nobody's business, and in doubt it does.
    assert await box.fs.confined(paddock.Sandbox(":read-only")).may_lead_into("/usr/bin/env", [work])


async def test_a_file_larger_than_a_message_goes_in_blocks(box: paddock.Box, tmp_path: Path) -> None:
    data = os.urandom(20 * MIB + 1)
    path = box.path(tmp_path / "big")
    for atomic in (False, True):
        assert await path.write_bytes(data, atomic=atomic) == len(data)
        assert await path.read_bytes() == data


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 4 * MIB, 9 * MIB])
async def test_files_of_every_size_come_back_whole(box: paddock.Box, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    async with box.path(tmp_path / "file").reader() as file:
        assert file.size_bytes == size
        assert b"".join([piece async for piece in file]) == data
        assert await file.read_block(size // 2, 10) == data[size // 2 : size // 2 + 10]


async def test_a_path_tells_what_it_is(box: paddock.Box, tmp_path: Path) -> None:
    root = box.path(tmp_path)
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    file, link, missing = root / "file", root / "link", root / "missing"
    assert (await file.stat()).size == 5
    assert [await file.exists(), await file.is_file(), await file.is_dir(), await file.is_symlink()] == [
        True,
        True,
        False,
        False,
    ]
    assert [await link.is_file(), await link.is_symlink()] == [True, True]
    assert [await missing.exists(), await (root / "dangling").exists()] == [False, False]
    assert await root.is_dir()
    assert await root.iterdir() == [root / "dangling", file, link]
    assert await link.resolve() == await file.resolve()


async def test_directories_are_made_listed_copied_and_removed(box: paddock.Box, tmp_path: Path) -> None:
    root = box.path(tmp_path)
    await (root / "a" / "b").mkdir(parents=True)
    await (root / "a" / "b" / "f").write_text("x")
    with pytest.raises(OperationFailed, match="exists"):
        await (root / "a").mkdir()
    with pytest.raises(OperationFailed, match="exists"):
        await (root / "a").mkdir(parents=True)
    await (root / "a").mkdir(exist_ok=True)
    await (root / "a").mkdir(parents=True, exist_ok=True)
    with pytest.raises(NotFound):
        await (root / "x" / "y").mkdir()
    copied = await (root / "a").copy(root / "c", recursive=True)
    tree = await root.walk()
    assert tree.files == [f"{tmp_path}/a/b/f", f"{tmp_path}/c/b/f"]
    assert tree.directories == [f"{tmp_path}/{name}" for name in ("a", "c", "a/b", "c/b")]
    assert (tree.errors, tree.is_truncated) == ([], False)
    await (copied / "b" / "f").unlink()
    await (copied / "b" / "f").unlink(missing_ok=True)
    with pytest.raises(NotFound):
        await (copied / "b" / "f").unlink()
    await root.joinpath("a").rmtree()
    await root.joinpath("a").rmtree(missing_ok=True)
    assert [path.name for path in await root.iterdir()] == ["c"]


async def test_names_that_are_not_text_can_be_worked_with(box: paddock.Box, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\xfe")
    await box.path(tmp_path / name).write_text("here")
    assert (tmp_path / name).read_text() == "here"
    assert (await box.fs.walk(tmp_path)).files == [str(tmp_path / name)]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path.mkdir(), InvalidRequest),
        (os.mkfifo, InvalidRequest),
        (lambda path: path.symlink_to(path.name), OperationFailed),
        (lambda path: None, NotFound),
    ],
    ids=["directory", "fifo", "loop", "missing"],
)
async def test_what_is_no_file_can_not_be_read(
    box: paddock.Box, tmp_path: Path, make: object, error: type[Exception]
) -> None:
    assert callable(make)
    make(tmp_path / "it")
    with pytest.raises(error, match="it"):
        await box.path(tmp_path / "it").read_bytes()


# --- open files -------------------------------------------------------------


async def test_an_atomic_file_appears_at_the_end_of_its_block(box: paddock.Box, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("old")
    async with box.path(place).writer(atomic=True) as file:
        await file.write(bytes(3 * MIB))
        assert place.read_text() == "old"
    assert place.stat().st_size == 3 * MIB


async def test_an_atomic_file_whose_block_fails_leaves_the_old_one(box: paddock.Box, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("old")

    async def fail() -> None:
        async with box.path(place).writer(atomic=True) as file:
            await file.write(b"new")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert place.read_text() == "old"
    assert names_in(tmp_path) == ["file"]


async def test_a_write_that_fails_is_told_and_not_lost(tmp_path: Path) -> None:
    with serving() as server:
        # A file that may not grow any more fails as a full disk does.
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))
        async with paddock.connect(server.url) as box:
            with pytest.raises(OperationFailed, match="File too large"):
                await box.path(tmp_path / "file").write_bytes(bytes(9 * MIB), atomic=True)
    assert names_in(tmp_path) == []


# --- text and changes -------------------------------------------------------


async def test_lines_and_names_are_found(box: paddock.Box, tmp_path: Path) -> None:
    root = box.path(tmp_path)
    await (root / "a.py").write_text("import os\ndef main():\n    pass\n")
    await (root / "b.txt").write_text("the main thing\n")
    found = await root.search("main")
    assert [(match.path, match.line, match.column) for match in found.matches] == [
        (f"{tmp_path}/a.py", 2, 5),
        (f"{tmp_path}/b.txt", 1, 5),
    ]
    assert (found.errors, found.is_truncated) == ([], False)
    named = await box.fs.search(tmp_path, r"\.py$", kind="name", regex=True)
    assert [match.path for match in named.matches] == [f"{tmp_path}/a.py"]
    assert (await box.fs.search(tmp_path, "main", max_matches=1)).is_truncated


async def test_an_edit_is_made_whole_or_not_at_all(box: paddock.Box, tmp_path: Path) -> None:
    file = box.path(tmp_path / "a.py")
    await file.write_text("x = 1\ny = 1\n")
    diff = await file.edit(("x = 1", "x = 2"), (" = ", ": int = ", 2))
    assert await file.read_text() == "x: int = 2\ny: int = 1\n"
    assert "-x = 1\n" in diff
    with pytest.raises(InvalidRequest, match="2"):
        await file.edit(("int", "str"))
    assert await file.read_text() == "x: int = 2\ny: int = 1\n"


async def test_changes_are_told_until_the_end_of_the_directory(box: paddock.Box, tmp_path: Path) -> None:
    place = tmp_path / "watched"
    place.mkdir()
    seen: list[paddock.FileChange] = []
    async with box.path(place).watch(recursive=True) as changes:
        (place / "file").write_text("x")
        async for batch in changes:
            assert not batch.is_overflow
            seen += batch.changes
            if len(seen) == 1:
                (place / "file").unlink()
                place.rmdir()
    assert seen[0] == paddock.FileChange(str(place / "file"), ChangeKind.CREATED)
    assert seen[-1] == paddock.FileChange(str(place), ChangeKind.DELETED)


@pytest.mark.parametrize(
    "spelling",
    ["{}", "{}/", "{}//", "file://{}", "file://{}/", "file://{}/sub/..", "{}/sub/..", "/{}", "{}/."],
)
@pytest.mark.parametrize("name", ["watched", "a b%é"], ids=["plain", "quoted"])
async def test_a_watch_ends_with_its_directory_however_the_path_is_written(
    box: paddock.Box, tmp_path: Path, spelling: str, name: str
) -> None:
    place = tmp_path / name
    (place / "sub").mkdir(parents=True)
    written = file_uri(str(place)).removeprefix("file://") if "file:" in spelling else str(place)
    async with asyncio.timeout(PATIENCE_S), box.fs.watch(spelling.format(written)) as changes:
        shutil.rmtree(place)
        kinds = {change.kind async for batch in changes for change in batch.changes}
    assert kinds == {ChangeKind.DELETED}


async def test_a_watch_outlives_a_lost_connection_and_says_what_it_may_have_missed(tmp_path: Path) -> None:
    async with (
        paddock.serve() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
        box.path(tmp_path).watch() as changes,
    ):
        following = aiter(changes)
        (tmp_path / "before").touch()
        assert [change.path for change in (await anext(following)).changes] == [f"{tmp_path}/before"]
        proxy.break_all()
        assert await anext(following) == paddock.Changes((), is_overflow=True)
        (tmp_path / "after").touch()
        assert [change.path for change in (await anext(following)).changes] == [f"{tmp_path}/after"]


# --- transfers --------------------------------------------------------------


def plant(root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "big").write_bytes(os.urandom(5 * MIB + 3))
    (root / "deep" / "er" / "tool").write_text("#!/bin/sh\n")
    (root / "deep" / "er" / "tool").chmod(0o755)
    (root / "link").symlink_to("deep/big")
    (root / os.fsdecode(b"\xff")).write_text("name")


def describe(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (
            stat.S_IMODE(path.lstat().st_mode),
            os.fsencode(os.readlink(path))
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b"",
        )
        for path in root.rglob("*")
    }


async def test_a_tree_goes_there_and_back(box: paddock.Box, tmp_path: Path) -> None:
    plant(tmp_path / "here")
    told: list[tuple[int, int | None]] = []
    await box.fs.upload(tmp_path / "here", tmp_path / "there", progress=lambda *state: told.append(state))
    await box.fs.download(tmp_path / "there", tmp_path / "back")
    assert describe(tmp_path / "back") == describe(tmp_path / "there") == describe(tmp_path / "here")
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] > 5 * MIB


async def test_a_file_goes_there_and_back_and_tells_how_far_it_is(box: paddock.Box, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(os.urandom(3 * MIB + 1))
    told: list[tuple[int, int | None]] = []
    await box.fs.upload(tmp_path / "here", tmp_path / "there", progress=lambda *state: told.append(state))
    await box.fs.download(tmp_path / "there", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "here").read_bytes()
    assert told[-1] == (3 * MIB + 1, 3 * MIB + 1)


async def test_what_goes_wrong_on_this_side_is_told_apart(box: paddock.Box, tmp_path: Path) -> None:
    with pytest.raises(paddock.LocalFileError, match="missing' on this host: No such file"):
        await box.fs.upload(tmp_path / "missing", tmp_path / "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(paddock.LocalFileError, match="No such file"):
        await box.fs.download(tmp_path / "file", tmp_path / "missing" / "x")
    with pytest.raises(NotFound):
        await box.fs.upload(tmp_path / "file", tmp_path / "missing" / "x")
    assert names_in(tmp_path) == ["file"]


async def test_a_failed_transfer_of_a_tree_leaves_nothing(box: paddock.Box, tmp_path: Path) -> None:
    plant(tmp_path / "here")
    os.mkfifo(tmp_path / "here" / "zz")
    with pytest.raises(InvalidRequest, match="zz"):
        await box.fs.upload(tmp_path / "here", tmp_path / "there")
    with pytest.raises(InvalidRequest, match="zz"):
        await box.fs.download(tmp_path / "here", tmp_path / "back")
    assert names_in(tmp_path) == ["here"]


async def test_a_cancelled_transfer_leaves_nothing(box: paddock.Box, tmp_path: Path) -> None:
    plant(tmp_path / "here")
    begun = asyncio.Event()
    transfer = asyncio.create_task(
        box.fs.upload(tmp_path / "here", tmp_path / "there", progress=lambda *_: begun.set())
    )
    await begun.wait()
    transfer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await transfer
    # The server answers in order: what was discarded is gone when this is answered.
    assert not await box.path(tmp_path / "there").exists()
    assert names_in(tmp_path) == ["here"]


# --- lost connections -------------------------------------------------------


async def test_reading_goes_on_behind_a_lost_connection(tmp_path: Path) -> None:
    data = os.urandom(12 * MIB)
    (tmp_path / "file").write_bytes(data)
    async with (
        paddock.serve() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):
        got = bytearray()
        async with box.path(tmp_path / "file").reader() as file:
            async for piece in file:
                got += piece
                if len(got) in (2 * MIB, 5 * MIB):
                    proxy.break_all()
        assert got == data


async def test_a_file_that_changed_meanwhile_is_not_mixed_up(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(bytes(12 * MIB))
    async with (
        paddock.serve() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):

        async def read() -> None:
            async with box.path(place).reader() as file:
                async for _ in file:
                    proxy.break_all()
                    place.write_bytes(b"another one")

        with pytest.raises(OperationFailed, match="changed while it was read"):
            await read()


async def test_writing_says_that_the_connection_was_lost(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("old")
    async with (
        paddock.serve() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):

        async def write() -> None:
            async with box.path(place).writer(atomic=True) as file:
                for _ in range(20):
                    await file.write(bytes(MIB))
                    proxy.break_all()

        with pytest.raises(paddock.WriteLost, match="is unchanged"):
            await write()
        assert place.read_text() == "old"

"""Patches carried out on files in a dictionary: all of it, or nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.agent.box_executor import BoxFiles
from paddock.agent.fake_executor import FakeExecutor
from paddock.agent.fake_files import FakeFiles
from paddock.agent.patch import AddFile, Change, Chunk, DeleteFile, UpdateFile, parse_patch
from paddock.agent.patch_writer import CONDITION_BYTES, PatchWriter
from paddock.client.files import Files
from paddock.errors import (
    InvalidRequest,
    InvalidToolCall,
    NotFound,
    PaddockError,
    PatchIncomplete,
    PatchMismatch,
)
from paddock.protocol.fs import MetadataResult

PATCH = """\
*** Begin Patch
*** Add File: new.txt
+one
*** Update File: a.txt
@@
-old
+new
*** Update File: b.txt
*** Move to: sub/c.txt
@@
-b
+c
*** Delete File: d.txt
*** End Patch
"""


def place() -> FakeExecutor:
    executor = FakeExecutor()
    executor.contents |= {"/work/a.txt": b"old\n", "/work/b.txt": b"b\n", "/work/d.txt": b"d\n"}
    return executor


def writer(executor: FakeExecutor) -> PatchWriter:
    return PatchWriter(executor.files(None), "/work")


async def test_patch_changes_all_its_files() -> None:
    executor = place()
    summary = await writer(executor).apply(parse_patch(PATCH))
    assert summary == "A new.txt\nM a.txt\nR b.txt -> sub/c.txt\nD d.txt"
    assert executor.contents == {
        "/work/README": b"hello\n",
        "/work/new.txt": b"one\n",
        "/work/a.txt": b"new\n",
        "/work/sub/c.txt": b"c\n",
    }


@pytest.mark.parametrize(
    ("changed", "error"),
    [("-b\n+c", PatchMismatch), ("*** Delete File: d.txt", NotFound)],
)
async def test_patch_that_does_not_fit_writes_nothing(changed: str, error: type[PaddockError]) -> None:
    executor = place()
    before = dict(executor.contents)
    text = PATCH.replace(changed, changed.replace("-b", "-x").replace("d.txt", "missing.txt"))
    with pytest.raises(error):
        await writer(executor).apply(parse_patch(text))
    assert executor.contents == before


@pytest.mark.parametrize("refused", ["new.txt", "a.txt", "sub/c.txt", "b.txt", "d.txt"])
async def test_write_that_fails_leaves_everything_as_it_was(refused: str) -> None:
    executor = place()
    before = dict(executor.contents)
    executor.refused.add(f"/work/{refused}")
    with pytest.raises(PatchIncomplete, match="as they were before") as raised:
        await writer(executor).apply(parse_patch(PATCH))
    assert raised.value.left == []
    assert executor.contents == before


async def test_what_can_not_be_put_back_is_named() -> None:
    executor = place()

    class Spoiled(dict[str, bytes]):
        def __setitem__(self, path: str, data: bytes) -> None:
            super().__setitem__(path, data)
            # From the first write on, that file can't be written, and the last one neither.
            executor.refused |= {"/work/new.txt", "/work/d.txt"}

    executor.contents = Spoiled(executor.contents)
    with pytest.raises(PatchIncomplete, match="could not be put back") as raised:
        await writer(executor).apply(parse_patch(PATCH))
    assert raised.value.left == ["/work/new.txt"]


async def test_file_that_is_moved_or_put_back_keeps_its_mode() -> None:
    executor = place()
    executor.modes |= {"/work/b.txt": 0o755, "/work/d.txt": 0o700}
    executor.refused.add("/work/d.txt")
    with pytest.raises(PatchIncomplete):
        await writer(executor).apply(parse_patch(PATCH))
    assert executor.modes == {"/work/b.txt": 0o755, "/work/d.txt": 0o700}
    executor.refused.clear()
    await writer(executor).apply(parse_patch(PATCH))
    assert executor.modes == {"/work/sub/c.txt": 0o755}


@pytest.mark.parametrize("refused", [set[str](), {"/work/d.txt"}])
async def test_call_that_is_cancelled_while_it_writes_leaves_no_half_of_a_patch(refused: set[str]) -> None:
    executor = place()
    before = dict(executor.contents)
    reached, going_on = asyncio.Event(), asyncio.Event()

    class Slow(FakeFiles):
        async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
            await super().write_file(path, data, atomic=atomic)
            reached.set()
            await going_on.wait()

    files = Slow(executor.contents, refused, executor.directories)
    call = asyncio.create_task(PatchWriter(files, "/work").apply(parse_patch(PATCH)))
    await reached.wait()
    call.cancel()
    asyncio.get_running_loop().call_soon(going_on.set)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (executor.contents == before) == bool(refused)
    assert ("/work/d.txt" in executor.contents) == bool(refused)


class Interfering(BoxFiles):
    """Files of a box; somebody else does something just before the change of one of them."""

    def __init__(self, files: Files, path: Path, interfere: Callable[[Path], object]) -> None:
        super().__init__(files)
        self._path = path
        self._interfere = iter([interfere])

    async def edit(self, path: str, old: str, new: str, count: int) -> str:
        if path == str(self._path):
            for interfere in self._interfere:
                interfere(self._path)
        return await super().edit(path, old, new, count)


def without_conditions(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server be one of the reference protocol."""
    monkeypatch.setattr(files, "has", lambda capability: capability == "atomicWrites")


@pytest.mark.parametrize("is_reference", [False, True])
async def test_what_somebody_else_has_written_since_a_file_was_read_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reference: bool
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.txt").write_text("b\n")
    text = "*** Begin Patch\n*** Add File: new/c.txt\n+c\n*** Update File: a.txt\n@@\n-a\n+A\n"
    text += "*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch"
    async with paddock.connect() as box:
        if is_reference:
            without_conditions(box.fs, monkeypatch)
        files = Interfering(box.fs, tmp_path / "b.txt", lambda path: path.write_text("theirs\n"))
        with pytest.raises(PatchIncomplete, match=r"b.txt has changed in the meantime") as raised:
            await PatchWriter(files, str(tmp_path)).apply(parse_patch(text))
    assert raised.value.left == []
    assert (tmp_path / "a.txt").read_text() == "a\n"
    assert (tmp_path / "b.txt").read_text() == "theirs\n"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


async def test_what_somebody_else_has_written_after_a_patch_is_not_undone_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.txt").write_text("b\n")
    text = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n"
    text += "*** Update File: b.txt\n@@\n-b\n+B\n*** End Patch"

    def interfere(path: Path) -> None:
        path.write_text("theirs\n")
        (tmp_path / "a.txt").write_text("theirs too\n")

    async with paddock.connect() as box:
        files = Interfering(box.fs, tmp_path / "b.txt", interfere)
        with pytest.raises(PatchIncomplete, match="could not be put back") as raised:
            await PatchWriter(files, str(tmp_path)).apply(parse_patch(text))
    assert raised.value.left == [str(tmp_path / "a.txt")]
    assert (tmp_path / "a.txt").read_text() == "theirs too\n"
    assert (tmp_path / "b.txt").read_text() == "theirs\n"


@pytest.mark.parametrize(
    ("seen", "change"),
    [
        (None, AddFile("file", "mine\n")),
        (b"", AddFile("file", "mine\n")),
        (b"\xff", AddFile("file", "mine\n")),
        (b"x" * (CONDITION_BYTES + 1), AddFile("file", "mine\n")),
        (b"seen\n", DeleteFile("file")),
    ],
)
async def test_no_change_is_made_over_what_was_not_there_when_it_was_read(
    tmp_path: Path, seen: bytes | None, change: Change
) -> None:
    path = tmp_path / "file"
    if seen is not None:
        path.write_bytes(seen)

    looked: list[str] = []
    async with paddock.connect() as box:

        async def metadata_of(name: str) -> MetadataResult:
            looked.append(name)
            if looked.count(str(path)) == 2:
                path.write_bytes(b"theirs\n")
            return await box.fs.metadata(name)

        files = BoxFiles(box.fs)
        files.metadata = metadata_of  # type: ignore[assignment]
        with pytest.raises(PatchIncomplete, match="has changed in the meantime"):
            await PatchWriter(files, str(tmp_path)).apply((change,))
    assert path.read_bytes() == b"theirs\n"


async def test_directory_that_somebody_else_has_filled_stays_when_a_patch_is_undone(tmp_path: Path) -> None:
    async with paddock.connect() as box:

        class Filling(BoxFiles):
            async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
                if path.endswith("/second"):
                    raise InvalidRequest("no more room")
                await super().write_file(path, data, atomic=atomic)
                (tmp_path / "new" / "of-somebody-else").touch()

        text = "*** Begin Patch\n*** Add File: new/deep/first\n+1\n*** Add File: second\n+2\n*** End Patch"
        with pytest.raises(PatchIncomplete) as raised:
            await PatchWriter(Filling(box.fs), str(tmp_path)).apply(parse_patch(text))
        assert raised.value.left == [str(tmp_path / "new")]
        assert not (tmp_path / "new" / "deep").exists()
        assert (tmp_path / "new" / "of-somebody-else").exists()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ((UpdateFile("a", (Chunk(("1",), ("one",)),), "here/a"),), ("a", "here/a")),
        ((UpdateFile("a", (Chunk(("1",), ("one",)),), "link"),), ("a", "link")),
        (
            (UpdateFile("a", (Chunk(("1",), ("x",)),)), UpdateFile("here/a", (Chunk(("1",), ("y",)),))),
            ("a", "here/a"),
        ),
        ((DeleteFile("a"), AddFile("here/a", "new\n")), ("a", "here/a")),
        ((AddFile("new/b", "1\n"), AddFile("here/new/b", "2\n")), ("new/b", "here/new/b")),
        ((DeleteFile("link"), DeleteFile("a")), ("link", "a")),
    ],
)
async def test_patch_with_two_names_of_one_file_is_refused_before_anything_is_written(
    tmp_path: Path, changes: tuple[Change, ...], names: tuple[str, str]
) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "here").symlink_to(".")
    async with paddock.connect() as box:
        writer = PatchWriter(BoxFiles(box.fs), str(tmp_path))
        with pytest.raises(InvalidToolCall, match=f"{tmp_path}/{names[0]} and {tmp_path}/{names[1]} are"):
            await writer.apply(changes)
    assert (tmp_path / "a").read_text() == "1\n"
    assert sorted(os.listdir(tmp_path)) == ["a", "here", "link"]


async def test_other_names_of_the_files_of_a_patch_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "here").symlink_to(".")
    async with paddock.connect() as box:
        change = UpdateFile("here/a", (Chunk(("1",), ("2",)),), "here/b")
        await PatchWriter(BoxFiles(box.fs), str(tmp_path)).apply((change, AddFile("c", "3\n")))
    assert sorted(os.listdir(tmp_path)) == ["b", "c", "here"]
    assert (tmp_path / "b").read_text() == "2\n"


async def test_failed_patch_removes_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere/at/all")
    async with paddock.connect() as box:
        with pytest.raises(PatchIncomplete):
            await PatchWriter(BoxFiles(box.fs), str(tmp_path)).apply((AddFile("dangling/x", "x\n"),))
    assert (tmp_path / "dangling").is_symlink()


async def test_changes_of_one_file_see_each_other() -> None:
    executor = place()
    text = "*** Begin Patch\n*** Add File: x\n+1\n*** Update File: x\n@@\n-1\n+2\n*** Delete File: a.txt\n"
    text += "*** Add File: a.txt\n+again\n*** End Patch"
    await writer(executor).apply(parse_patch(text))
    assert (executor.contents["/work/x"], executor.contents["/work/a.txt"]) == (b"2\n", b"again\n")


ADDITION = (Chunk((), ("line",)),)

names = st.sampled_from(["a.txt", "b.txt", "d.txt", "x", "sub/y"])
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(AddFile, names, st.sampled_from(["", "text\n"])),
    st.builds(DeleteFile, names),
    st.builds(lambda path, target: UpdateFile(path, ADDITION, target), names, st.none() | names),
)


@given(st.lists(changes, min_size=1, max_size=5), st.sets(names, max_size=2))
async def test_any_patch_is_applied_as_a_whole_or_not_at_all(wanted: list[Change], refused: set[str]) -> None:
    executor = place()
    before = dict(executor.contents)
    executor.refused = {f"/work/{name}" for name in refused}
    try:
        summary = await writer(executor).apply(wanted)
    except PaddockError:
        assert executor.contents == before
    else:
        assert len(summary.splitlines()) == len(wanted)

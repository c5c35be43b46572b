"""Directories, metadata, removal, copies and walks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.errors import InvalidRequest, NotFound, OperationFailed
from paddock.fs import metadata, syscall
from paddock.fs.answer import Metadata, Walked
from paddock.fs.copy import copy as copy_at_once
from paddock.fs.directory import create_directory
from paddock.fs.operation import (
    MIB,
    Canonicalize,
    Copy,
    CreateDirectory,
    GetMetadata,
    ReadDirectory,
    Remove,
    Walk,
)
from paddock.fs.operations import Operations
from tests.unit.fs.places import threads


def walk(path: Path, **changes: int) -> Walk:
    limits = {
        "max_depth": 10,
        "max_directories": 100,
        "max_entries": 1000,
        "max_bytes": MIB,
        "follow_directory_links": False,
        "prune_hidden": False,
    } | changes
    return Walk(path=bytes(path), **limits)  # type: ignore[arg-type]


def shown(walked: Walked, root: Path) -> list[str]:
    return [
        os.path.relpath(os.fsdecode(directory.path + b"/" + name), root) + ("/" if is_directory else "")
        for directory in walked.directories
        for name, is_directory in zip(directory.names, directory.are_directories, strict=True)
    ]


# --- metadata ---------------------------------------------------------------


async def test_metadata_tells_what_a_path_leads_to(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    (tmp_path / "link").symlink_to("file")

    found = await files.perform(GetMetadata(path=bytes(tmp_path / "link")))
    itself = await files.perform(GetMetadata(path=bytes(tmp_path / "file"), follow=False))
    directory = await files.perform(GetMetadata(path=bytes(tmp_path)))

    status = (tmp_path / "file").stat()
    assert (found.is_file, found.is_directory, found.is_link, found.size_bytes) == (True, False, True, 5)
    assert found.modified_at_ms == status.st_mtime_ns // 1_000_000
    assert itself.is_file
    assert not itself.is_link
    assert (directory.is_directory, directory.is_file) == (True, False)


async def test_a_file_keeps_the_time_of_its_birth_when_it_is_changed(
    files: Operations, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.touch()
    born = (await files.perform(GetMetadata(path=bytes(path)))).created_at_ms
    os.utime(path, (1, 1))

    found = await files.perform(GetMetadata(path=bytes(path)))

    assert found.modified_at_ms == 1000
    assert found.created_at_ms == born > 1_500_000_000_000


async def test_metadata_told_at_once_is_the_same_as_that_of_a_thread(
    files: Operations, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("hello")
    (tmp_path / "link").symlink_to("file")
    for name in ("", "file", "link"):
        operation = GetMetadata(path=bytes(tmp_path / name))
        at_once = files.metadata_at_once(operation.path)
        assert at_once in (None, await files.perform(operation))


def test_metadata_is_told_alike_with_and_without_the_compiled_module(tmp_path: Path) -> None:
    status = pytest.importorskip("paddock.fs._status", reason="not compiled: no Python headers")
    (tmp_path / "file").write_text("hello")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    os.utime(tmp_path / "file", ns=(0, -1_500_000))

    def told(describe: Callable[[bytes], syscall.Status], path: Path) -> syscall.Status | int | None:
        try:
            return describe(bytes(path))
        except OSError as error:
            return error.errno

    names = ("", "file", "link", "loop", "fifo", "missing", "file/x", "loop/x", "x" * 300)
    for path in (*(tmp_path / name for name in names), Path("/"), Path("/proc/self/status")):
        both = {told(status.describe_at_once, path), told(syscall.describe_at_once, path)}
        # Any rename on the host may disturb either.
        assert len(both - {errno.EAGAIN}) <= 1


@pytest.mark.parametrize("seconds", [2**60, -(2**63)])
async def test_a_time_of_modification_beyond_64_bits_of_milliseconds_is_told_as_0(
    files: Operations, seconds: int
) -> None:
    # tmpfs keeps any time; most other file systems keep the nearest that they can.
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        os.utime(file.name, (seconds, seconds))
        if os.stat(file.name).st_mtime != seconds:
            pytest.skip("/dev/shm does not keep such times")
        operation = GetMetadata(path=os.fsencode(file.name))

        threaded = await files.perform(operation)
        at_once = files.metadata_at_once(operation.path)

        assert isinstance(threaded, Metadata)
        assert threaded.modified_at_ms == 0
        assert at_once in (None, threaded)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOSYS, errno.EINVAL, errno.EPERM])
async def test_a_kernel_that_can_not_tell_at_once_is_asked_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: bytes) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(metadata, "describe_at_once", refuse)
    async with threads() as files:
        assert files.metadata_at_once(b"/") is None
        assert (await files.perform(GetMetadata(path=b"/"))).is_directory


async def test_metadata_without_following_refuses_links(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "d").mkdir()
    (tmp_path / "dl").symlink_to("d")

    with pytest.raises(InvalidRequest, match="symbolic link"):
        await files.perform(GetMetadata(path=bytes(tmp_path / "dangling"), follow=False))
    with pytest.raises(OperationFailed, match="os error 20"):
        await files.perform(GetMetadata(path=bytes(tmp_path / "dl" / "x"), follow=False))
    with pytest.raises(NotFound):
        await files.perform(GetMetadata(path=bytes(tmp_path / "dangling")))


async def test_canonical_paths_have_no_links_and_no_dots(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "dl").symlink_to("d")

    found = await files.perform(Canonicalize(path=bytes(tmp_path) + b"/dl/../d/./"))

    assert found.path.endswith(b"/d")
    assert (await files.perform(Canonicalize(path=found.path))).path == found.path
    with pytest.raises(NotFound):
        await files.perform(Canonicalize(path=bytes(tmp_path / "no")))


# --- directories ------------------------------------------------------------


@pytest.mark.parametrize("follow", [False, True])
async def test_directories_are_made_with_their_parents(
    files: Operations, tmp_path: Path, follow: bool
) -> None:
    for _ in range(2):
        await files.perform(CreateDirectory(path=bytes(tmp_path / "a" / "b" / "c"), follow=follow))

    assert (tmp_path / "a" / "b" / "c").is_dir()
    with pytest.raises(OperationFailed, match="os error 17"):
        await files.perform(CreateDirectory(path=bytes(tmp_path / "a"), recursive=False, follow=follow))
    with pytest.raises(NotFound):
        await files.perform(CreateDirectory(path=bytes(tmp_path / "x" / "y"), recursive=False, follow=follow))


def test_directories_are_made_deeper_than_calls_of_the_interpreter_may_be(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    names = b"/d" * (sys.getrecursionlimit() + 100)
    made, copied = (bytes(tmp_path) + top + names for top in (b"/made", b"/copied"))
    try:
        create_directory(CreateDirectory(path=made))
        copy_at_once(Copy(source=bytes(tmp_path / "source"), destination=copied, recursive=True))
        assert os.path.isdir(made)
        assert os.path.isdir(copied)
        with pytest.raises(OperationFailed, match="os error 36"):
            create_directory(CreateDirectory(path=made + names))
    finally:
        # pytest could not do that.
        subprocess.run(["rm", "-rf", tmp_path / "made", tmp_path / "copied"], check=True)


@pytest.mark.parametrize("name", ["a/./b", "a/x/../b/", "a//b/.", "link/a/b"])
async def test_directories_are_made_by_any_way_to_them(files: Operations, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(".")
    await files.perform(CreateDirectory(path=f"{tmp_path}/{name}".encode()))
    assert (tmp_path / "a" / "b").is_dir()
    await files.perform(CreateDirectory(path=b"//"))


async def test_directories_are_not_made_where_something_else_is(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, number in (("file", 17), ("file/new", 20), ("file/new/deep", 20), ("dangling", 17)):
        with pytest.raises(OperationFailed, match=f"os error {number}"):
            await files.perform(CreateDirectory(path=bytes(tmp_path / name)))
    with pytest.raises(NotFound):
        await files.perform(CreateDirectory(path=bytes(tmp_path / "dangling" / "new")))
    assert sorted(os.listdir(tmp_path)) == ["dangling", "file"]


async def test_no_directory_is_made_behind_a_link_that_must_not_be_followed(
    files: Operations, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "dl").symlink_to("d")

    for name in ("dl", "dl/new"):
        with pytest.raises(OperationFailed, match="os error 20"):
            await files.perform(CreateDirectory(path=bytes(tmp_path / name), follow=False))

    assert os.listdir(tmp_path / "d") == []


async def test_a_directory_is_listed_up_to_its_limit(files: Operations, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")

    listing = await files.perform(ReadDirectory(path=bytes(tmp_path), max_entries=3))

    assert sorted(entry.name for entry in listing.entries) == [b"a", b"b", b"c"]
    with pytest.raises(OperationFailed, match="more than 2 entries"):
        await files.perform(ReadDirectory(path=bytes(tmp_path), max_entries=2))


async def test_a_directory_that_may_not_be_read_is_refused(
    ordinary_files: Operations, open_place: Path
) -> None:
    (open_place / "closed").mkdir()
    os.chmod(open_place / "closed", 0)

    with pytest.raises(InvalidRequest, match="os error 13"):
        await ordinary_files.perform(ReadDirectory(path=bytes(open_place / "closed"), max_entries=9))
    with pytest.raises(InvalidRequest, match="os error 13"):
        await ordinary_files.perform(GetMetadata(path=bytes(open_place / "closed" / "x")))


# --- removal ----------------------------------------------------------------


async def remove(files: Operations, path: Path, *, force: bool = False, **options: bool) -> None:
    choices = {"recursive": True, "follow": True} | options
    await files.perform(Remove(path=bytes(path), force=force, **choices))


async def test_a_tree_is_removed_and_what_its_links_lead_to_is_not(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "tree" / "file").touch()
    os.mkfifo(tmp_path / "tree" / "fifo")
    (tmp_path / "link").symlink_to("kept")

    await remove(files, tmp_path / "tree")
    await remove(files, tmp_path / "link")

    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["file"]


@pytest.mark.parametrize("ending", ["/", "//"])
async def test_a_link_with_a_slash_behind_it_is_removed_and_its_target_is_not(
    files: Operations, tmp_path: Path, ending: str
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").write_text("kept")
    (tmp_path / "link").symlink_to("kept")
    await files.perform(Remove(path=bytes(tmp_path / "link") + ending.encode(), recursive=True, force=False))
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept/file").read_text() == "kept"


@pytest.mark.parametrize("ending", ["/.", "/./", "/kept/.."])
@pytest.mark.parametrize("name", ["link", "directory"])
async def test_dots_are_not_removed_and_nothing_in_them_is(
    files: Operations, tmp_path: Path, name: str, ending: str
) -> None:
    (tmp_path / "directory/kept").mkdir(parents=True)
    (tmp_path / "link").symlink_to("directory")
    with pytest.raises(InvalidRequest, match="names no entry"):
        await files.perform(
            Remove(path=bytes(tmp_path / name) + ending.encode(), recursive=True, force=False)
        )
    assert (tmp_path / "link/kept").is_dir()


async def test_a_deep_tree_is_removed(files: Operations, tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)

    await remove(files, tmp_path / "d")

    assert os.listdir(tmp_path) == []


async def test_what_is_missing_is_an_error_unless_forced(files: Operations, tmp_path: Path) -> None:
    await remove(files, tmp_path / "no", force=True)
    await remove(files, tmp_path / "no", force=True, recursive=False, follow=False)
    with pytest.raises(NotFound):
        await remove(files, tmp_path / "no")
    (tmp_path / "file").touch()
    with pytest.raises(OperationFailed, match="os error 20"):
        await remove(files, tmp_path / "file" / "x", force=True)


async def test_a_full_directory_is_removed_only_recursively(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)

    with pytest.raises(OperationFailed, match="os error 39"):
        await remove(files, tmp_path / "d", recursive=False)
    await remove(files, tmp_path / "d" / "e", recursive=False, follow=False)
    with pytest.raises(OperationFailed, match="unsupported"):
        await remove(files, tmp_path / "d", follow=False)

    assert os.listdir(tmp_path / "d") == []


async def test_a_tree_that_may_not_be_changed_is_told(ordinary_files: Operations, open_place: Path) -> None:
    (open_place / "d" / "closed").mkdir(parents=True)
    (open_place / "d" / "closed" / "file").touch()
    os.chmod(open_place / "d" / "closed", 0o555)

    with pytest.raises(InvalidRequest, match="os error 13"):
        await remove(ordinary_files, open_place / "d", force=True)

    assert (open_place / "d" / "closed" / "file").exists()


# --- copies -----------------------------------------------------------------


async def copy(files: Operations, source: Path, destination: Path, *, recursive: bool = False) -> None:
    await files.perform(Copy(source=bytes(source), destination=bytes(destination), recursive=recursive))


@pytest.mark.parametrize("name", ["file", "link", "hard"])
async def test_a_file_copied_onto_itself_keeps_its_content(
    files: Operations, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to("file")
    os.link(tmp_path / "file", tmp_path / "hard")

    await copy(files, tmp_path / "file", tmp_path / name)

    assert (tmp_path / "file").read_text() == "precious"


async def test_a_copy_replaces_content_and_permissions(files: Operations, tmp_path: Path) -> None:
    source, destination = tmp_path / "source", tmp_path / "destination"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o6751)
    destination.write_bytes(bytes(5_000_000))

    await copy(files, source, destination)

    assert destination.read_bytes() == source.read_bytes()
    assert destination.stat().st_mode & 0o7777 == 0o751


async def test_a_file_of_proc_is_copied(files: Operations, tmp_path: Path) -> None:
    await copy(files, Path("/proc/version"), tmp_path / "version")

    assert (tmp_path / "version").read_text().startswith("Linux version")


async def test_directories_keep_their_permissions_in_a_copy(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "d" / "private").mkdir(parents=True)
    (tmp_path / "d" / "private" / "file").write_text("x")
    (tmp_path / "d" / "private").chmod(0o500)
    os.mkfifo(tmp_path / "d" / "fifo")

    await copy(files, tmp_path / "d", tmp_path / "new" / "e", recursive=True)

    assert (tmp_path / "new" / "e" / "private" / "file").read_text() == "x"
    assert (tmp_path / "new" / "e" / "private").stat().st_mode & 0o777 == 0o500
    assert not (tmp_path / "new" / "e" / "fifo").exists()


@pytest.mark.parametrize("destination", ["d", "d/inside", "dl/inside", "d/../d/a/b", "dl"])
async def test_a_directory_is_not_copied_into_itself(
    files: Operations, tmp_path: Path, destination: str
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "dl").symlink_to("d")

    with pytest.raises(InvalidRequest, match="itself"):
        await copy(files, tmp_path / "d", Path(f"{tmp_path}/{destination}"), recursive=True)

    assert os.listdir(tmp_path / "d") == []


async def test_a_copy_that_makes_no_sense_is_refused(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "fifo")

    with pytest.raises(InvalidRequest, match="recursive: true"):
        await copy(files, tmp_path / "d", tmp_path / "e")
    with pytest.raises(InvalidRequest, match="neither a file"):
        await copy(files, tmp_path / "fifo", tmp_path / "e")
    with pytest.raises(OperationFailed, match="os error 6"):
        await copy(files, tmp_path / "file", tmp_path / "fifo")
    with pytest.raises(OperationFailed, match="os error 21"):
        await copy(files, tmp_path / "file", tmp_path / "d")
    with pytest.raises(NotFound):
        await copy(files, tmp_path / "file", tmp_path / "no" / "e")
    with pytest.raises(InvalidRequest, match="not a regular file"):
        await copy(files, tmp_path / "file", Path("/dev/null"))

    assert sorted(os.listdir(tmp_path)) == ["d", "fifo", "file"]


async def test_a_tree_is_not_written_through_links_in_its_destination(
    files: Operations, tmp_path: Path
) -> None:
    (tmp_path / "source" / "d").mkdir(parents=True)
    (tmp_path / "source" / "d" / "file").write_text("new")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "destination").mkdir()
    (tmp_path / "destination" / "d").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OperationFailed, match=r"os error (20|40)"):
        await copy(files, tmp_path / "source", tmp_path / "destination", recursive=True)

    assert os.listdir(tmp_path / "elsewhere") == []


# --- walks ------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "b" / "deep").mkdir(parents=True)
    (tmp_path / "b" / "file").touch()
    (tmp_path / ".hidden" / "in").mkdir(parents=True)
    (tmp_path / "a").touch()
    (tmp_path / "c").symlink_to("b")
    (tmp_path / "d").symlink_to("a")
    (tmp_path / "b" / "up").symlink_to("..")
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


async def test_a_walk_lists_nearest_first_and_by_name(files: Operations, tree: Path) -> None:
    walked = await files.perform(walk(tree))

    assert shown(walked, tree) == [".hidden/", "a", "b/", ".hidden/in/", "b/deep/", "b/file"]
    assert not walked.is_truncated


async def test_a_walk_from_a_link_lists_nothing_unless_it_leads_nowhere(
    files: Operations, tree: Path
) -> None:
    (tree / "dangling").symlink_to("none")

    assert shown(await files.perform(walk(tree / "c")), tree) == []
    with pytest.raises(NotFound):
        await files.perform(walk(tree / "dangling"))


async def test_a_walk_of_what_may_not_be_listed_says_so_and_lists_nothing(
    ordinary_files: Operations, open_place: Path
) -> None:
    (open_place / "closed").mkdir(mode=0)
    walked = await ordinary_files.perform(walk(open_place / "closed"))

    assert walked.directories == []
    (error,) = walked.errors
    assert (error.path, "Permission denied" in error.message) == (bytes(open_place / "closed"), True)


async def test_a_walk_enters_no_directory_twice(files: Operations, tree: Path) -> None:
    walked = await files.perform(walk(tree, follow_directory_links=True))

    assert shown(walked, tree) == [
        *(".hidden/", "a", "b/", "c/"),
        *(".hidden/in/", "b/deep/", "b/file", "b/up/"),
    ]


async def test_a_walk_lists_hidden_directories_and_need_not_enter_them(files: Operations, tree: Path) -> None:
    walked = await files.perform(walk(tree, prune_hidden=True))

    assert shown(walked, tree) == [".hidden/", "a", "b/", "b/deep/", "b/file"]


@pytest.mark.parametrize(
    ("limits", "count", "is_truncated"),
    [
        ({"max_depth": 0}, 3, False),
        ({"max_depth": 1}, 6, False),
        # Links and fifos are looked at too: six names at the top, then one more in each.
        ({"max_entries": 6}, 3, True),
        ({"max_entries": 7}, 4, True),
        ({"max_entries": 10}, 6, False),
        ({"max_directories": 1}, 3, True),
        ({"max_directories": 2}, 4, True),
        ({"max_directories": 5}, 6, False),
        ({"max_bytes": 1}, 0, True),
    ],
)
async def test_a_walk_ends_at_its_limits_and_says_so(
    files: Operations, tree: Path, limits: dict[str, int], count: int, is_truncated: bool
) -> None:
    walked = await files.perform(walk(tree, **limits))

    assert (len(shown(walked, tree)), walked.is_truncated) == (count, is_truncated)


async def test_a_walk_leaves_links_out_that_lead_nowhere(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()

    walked = await files.perform(walk(tmp_path, follow_directory_links=True))

    assert shown(walked, tmp_path) == ["file"]
    assert walked.errors == []


async def test_a_walk_from_something_else_finds_nothing(files: Operations, tree: Path) -> None:
    for name in ("a", "c", "fifo"):
        assert (await files.perform(walk(tree / name))).directories == []
    assert shown(await files.perform(walk(tree / "c", follow_directory_links=True)), tree / "c") == [
        *("deep/", "file", "up/"),
        *("up/.hidden/", "up/a", "up/b/", "up/c/", "up/.hidden/in/"),
    ]
    with pytest.raises(NotFound):
        await files.perform(walk(tree / "no"))


async def test_a_walk_tells_what_it_could_not_list(ordinary_files: Operations, open_place: Path) -> None:
    (open_place / "closed").mkdir()
    (open_place / "open").mkdir()
    (open_place / "open" / "file").touch()
    os.chmod(open_place / "closed", 0)

    walked = await ordinary_files.perform(walk(open_place))

    assert shown(walked, open_place) == ["closed/", "open/", "open/file"]
    assert [error.path for error in walked.errors] == [bytes(open_place / "closed")]
    assert "os error 13" in walked.errors[0].message

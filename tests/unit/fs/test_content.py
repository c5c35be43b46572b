"""Contents: read, written in place, and replaced as a whole."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from paddock.errors import InvalidRequest, NotFound, OperationFailed, RequestError
from paddock.fs.operation import MIB, Open, ReadBlock, ReadDirectory, WriteFile
from paddock.fs.operations import Operations
from tests.unit.fs.places import NOBODY, on_small_disk, worker


def leftovers(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if name.startswith(".paddock")]


async def write(
    files: Operations, path: Path, data: bytes, *, follow: bool = True, atomic: bool = False
) -> None:
    await files.perform(WriteFile(path=bytes(path), data=data, follow=follow, is_atomic=atomic))


async def read(files: Operations, path: Path, *, follow: bool = True) -> bytes:
    opened = await files.perform(Open(path=bytes(path), follow=follow, prefetch_bytes=MIB))
    assert opened.handle is None
    return opened.beginning


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("data", [b"", b"short", bytes(300_000)])
async def test_what_was_written_is_read(
    files: Operations, tmp_path: Path, data: bytes, follow: bool, atomic: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"something longer than the new content")

    await write(files, path, data, follow=follow, atomic=atomic)

    assert path.read_bytes() == data
    assert await read(files, path, follow=follow) == data


@pytest.mark.parametrize("atomic", [False, True])
async def test_a_new_file_has_the_mode_that_the_umask_leaves(
    files: Operations, tmp_path: Path, atomic: bool
) -> None:
    plain = tmp_path / "plain"
    plain.touch()

    await write(files, tmp_path / "new", b"x", atomic=atomic)

    assert (tmp_path / "new").stat().st_mode == plain.stat().st_mode


async def test_a_file_of_proc_is_read_though_it_says_it_is_empty(files: Operations) -> None:
    assert (await read(files, Path("/proc/version"))).startswith(b"Linux version")


@pytest.mark.parametrize("atomic", [False, True])
async def test_writing_through_a_link_changes_its_target(
    files: Operations, tmp_path: Path, atomic: bool
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("target")

    await write(files, link, b"new", atomic=atomic)

    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("atomic", [False, True])
async def test_writing_through_a_link_that_leads_nowhere_makes_its_target(
    files: Operations, tmp_path: Path, atomic: bool
) -> None:
    (tmp_path / "link").symlink_to("target")

    await write(files, tmp_path / "link", b"new", atomic=atomic)

    assert (tmp_path / "target").read_text() == "new"


@pytest.mark.parametrize("atomic", [False, True])
async def test_a_link_is_not_written_through_when_it_must_not_be(
    files: Operations, tmp_path: Path, atomic: bool
) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to("real")

    with pytest.raises(OperationFailed, match="os error 40"):
        await write(files, tmp_path / "link", b"new", follow=False, atomic=atomic)
    with pytest.raises(OperationFailed, match="os error 20"):
        await write(files, tmp_path / "linked" / "file", b"new", follow=False, atomic=atomic)

    assert (tmp_path / "target").read_text() == "old"
    assert os.listdir(tmp_path / "real") == []


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("atomic", [False, True])
async def test_what_is_no_regular_file_is_neither_read_nor_written_nor_waited_for(
    files: Operations, tmp_path: Path, follow: bool, atomic: bool
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(bytes(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "directory", tmp_path / "socket", Path("/dev/null")):
            with pytest.raises(RequestError):
                await write(files, path, b"x", follow=follow, atomic=atomic)
            with pytest.raises(RequestError):
                await read(files, path, follow=follow)

    assert sorted(os.listdir(tmp_path)) == ["directory", "fifo", "socket"]
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


async def test_a_fifo_that_somebody_reads_is_not_written_to(files: Operations, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reading = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(InvalidRequest, match="is not a file"):
            await write(files, tmp_path / "fifo", b"x")
        assert os.read(reading, 10) == b""
    finally:
        os.close(reading)


@pytest.mark.parametrize("atomic", [False, True])
async def test_missing_parents_and_impossible_names_are_told(
    files: Operations, tmp_path: Path, atomic: bool
) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(NotFound, match="os error 2"):
        await write(files, tmp_path / "no" / "file", b"x", atomic=atomic)
    with pytest.raises(OperationFailed, match="os error 40"):
        await write(files, tmp_path / "loop" / "file", b"x", atomic=atomic)
    with pytest.raises(OperationFailed, match="os error 36"):
        await write(files, tmp_path / ("x" * 256), b"x", atomic=atomic)
    with pytest.raises(OperationFailed, match="os error 40"):
        await read(files, tmp_path / "loop")

    assert os.listdir(tmp_path) == ["loop"]


async def test_names_that_are_no_text_and_dots_are_left_to_the_kernel(
    files: Operations, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    path = bytes(tmp_path) + b"/d/../d/./\xff\xfe"

    await files.perform(WriteFile(path=path, data=b"x", follow=False))

    assert os.listdir(bytes(tmp_path / "d")) == [b"\xff\xfe"]
    with pytest.raises(NotFound, match=r"\\udcff|\\xff|\N{REPLACEMENT CHARACTER}"):
        await files.perform(Open(path=path + b"\xff"))


# --- as a whole -------------------------------------------------------------


async def test_an_atomic_write_keeps_mode_and_attributes_and_makes_a_new_file(
    files: Operations, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o751)
    os.setxattr(path, "user.note", b"kept")
    before = path.stat()

    await write(files, path, b"new", atomic=True)

    after = path.stat()
    assert after.st_ino != before.st_ino
    assert after.st_mode == before.st_mode
    assert os.getxattr(path, "user.note") == b"kept"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("atomic", [False, True])
async def test_new_content_is_no_program_of_the_owner_of_the_old(
    files: Operations, tmp_path: Path, atomic: bool
) -> None:
    path = tmp_path / "file"
    path.touch()
    path.chmod(0o6751)

    await write(files, path, b"new", atomic=atomic)

    assert stat.S_IMODE(path.stat().st_mode) == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_an_atomic_write_keeps_the_owner(files: Operations, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.chown(path, NOBODY, NOBODY)

    await write(files, path, b"new", atomic=True)

    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)
    assert path.read_text() == "new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of somebody else")
async def test_an_atomic_write_that_can_not_keep_the_owner_changes_nothing(
    ordinary_files: Operations, open_place: Path
) -> None:
    path = open_place / "file"
    path.write_text("old")
    path.chmod(0o666)

    with pytest.raises(OperationFailed, match="without atomic"):
        await write(ordinary_files, path, b"new", atomic=True)

    assert (path.read_text(), path.stat().st_uid) == ("old", 0)
    await write(ordinary_files, path, b"in place")
    assert path.read_text() == "in place"
    assert leftovers(open_place) == []


async def test_an_atomic_write_leaves_other_names_of_the_file_as_they_were(
    files: Operations, tmp_path: Path
) -> None:
    (tmp_path / "one").write_text("old")
    os.link(tmp_path / "one", tmp_path / "two")

    await write(files, tmp_path / "one", b"new", atomic=True)

    assert (tmp_path / "two").read_text() == "old"


@pytest.mark.parametrize("atomic", [False, True])
async def test_who_may_not_write_a_file_may_not_replace_it(
    ordinary_files: Operations, open_place: Path, atomic: bool
) -> None:
    path = open_place / "file"
    path.write_text("old")
    path.chmod(0o444)

    with pytest.raises(InvalidRequest, match="os error 13"):
        await write(ordinary_files, path, b"new", atomic=atomic)

    assert path.read_text() == "old"
    assert leftovers(open_place) == []


async def test_who_may_not_write_to_a_directory_makes_nothing_there(
    ordinary_files: Operations, open_place: Path
) -> None:
    (open_place / "closed").mkdir(mode=0o555)
    os.chmod(open_place / "closed", 0o555)

    for atomic in (False, True):
        with pytest.raises(InvalidRequest, match="os error 13"):
            await write(ordinary_files, open_place / "closed" / "file", b"new", atomic=atomic)


@pytest.mark.parametrize("has_unnamed_files", [True, False])
async def test_a_disk_that_is_full_leaves_the_old_file(tmp_path: Path, has_unnamed_files: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    # The limit of a file's size fails a write half way, as a full disk does.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
    if not has_unnamed_files:
        limit += "import os; os.path.exists = lambda path: False;"

    async with worker(preparation=limit) as (files, _):
        with pytest.raises(OperationFailed, match="os error 27"):
            await write(files, path, bytes(200_000), atomic=True)
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["file"]

        await write(files, path, bytes(90_000), atomic=True)
    assert path.stat().st_size == 90_000
    assert os.listdir(tmp_path) == ["file"]


async def test_a_file_system_without_space_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    async with worker(preparation=on_small_disk(tmp_path, 400_000)) as (files, _):
        await write(files, path, b"old")
        with pytest.raises(OperationFailed, match="os error 28"):
            await write(files, path, bytes(900_000), atomic=True)
        assert await read(files, path) == b"old"

        # The space that was taken is free again.
        await write(files, path, bytes(300_000), atomic=True)
        assert await read(files, path) == bytes(300_000)
        listing = await files.perform(ReadDirectory(path=bytes(tmp_path), max_entries=10))
        assert [entry.name for entry in listing.entries] == [b"file"]
    assert os.listdir(tmp_path) == []


async def test_a_file_that_changes_while_it_is_read_is_read_to_its_end(
    files: Operations, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10))
    opened = await files.perform(Open(path=bytes(path)))
    assert opened.handle is not None
    with path.open("ab") as growing:
        growing.write(b"more")

    block = await files.perform(ReadBlock(handle=opened.handle, offset=0, length=100))

    assert block.data == bytes(10) + b"more"

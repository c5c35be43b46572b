"""Open files: blocks, what closes them, and what becomes of those that were to be published."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.errors import InvalidRequest, NotFound, OperationFailed
from paddock.fs.handle import HandleTable
from paddock.fs.operation import MAX_BLOCK_BYTES, Close, Open, OpenMode, ReadBlock, WriteBlock
from paddock.fs.operations import Operations
from paddock.fs.perform import perform
from tests.processes import open_descriptors
from tests.unit.fs.places import worker


async def opened(files: Operations, path: Path, mode: OpenMode = OpenMode.READ) -> int:
    handle = (await files.perform(Open(path=bytes(path), mode=mode))).handle
    assert handle is not None
    return handle


async def test_blocks_are_read_from_anywhere_and_are_short_only_at_the_end(
    files: Operations, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    handle = await opened(files, tmp_path / "file")

    async def read(offset: int, length: int) -> bytes:
        return (await files.perform(ReadBlock(handle=handle, offset=offset, length=length))).data

    assert await read(0, 4) == b"0123"
    assert await read(8, 4) == b"89"
    assert await read(100, 4) == b""
    assert len(await read(0, 10 * MAX_BLOCK_BYTES)) == 10
    await files.perform(Close(handle=handle))
    with pytest.raises(NotFound, match="not open"):
        await read(0, 4)


async def test_blocks_are_written_anywhere_and_a_hole_is_zeros(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    handle = await opened(files, tmp_path / "file", OpenMode.REPLACE)
    assert (tmp_path / "file").read_bytes() == b""

    await files.perform(WriteBlock(handle=handle, offset=4, data=b"BB"))
    await files.perform(WriteBlock(handle=handle, offset=0, data=b"AA"))

    assert (tmp_path / "file").read_bytes() == b"AA\0\0BB"


async def test_an_error_closes_the_file(files: Operations, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reading = await opened(files, tmp_path / "file")
    writing = await opened(files, tmp_path / "other", OpenMode.REPLACE)

    with pytest.raises(OperationFailed, match="os error 9"):
        await files.perform(WriteBlock(handle=reading, offset=0, data=b"x"))
    with pytest.raises(OperationFailed, match="os error 9"):
        await files.perform(ReadBlock(handle=writing, offset=0, length=1))

    for handle in (reading, writing):
        with pytest.raises(NotFound):
            await files.perform(ReadBlock(handle=handle, offset=0, length=1))
        await files.perform(Close(handle=handle))


async def test_an_offset_that_no_file_has_is_refused(files: Operations, tmp_path: Path) -> None:
    handle = await opened(files, tmp_path / "file", OpenMode.REPLACE)

    with pytest.raises(InvalidRequest, match="os error 22"):
        await files.perform(WriteBlock(handle=handle, offset=2**63 - 1, data=b"x"))


async def test_a_file_is_published_when_it_is_closed_and_not_before(
    files: Operations, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    handle = await opened(files, path, OpenMode.PUBLISH)
    await files.perform(WriteBlock(handle=handle, offset=0, data=b"new"))
    assert path.read_text() == "old"

    await files.perform(Close(handle=handle))

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert os.listdir(tmp_path) == ["file"]


async def test_a_file_that_is_discarded_was_never_there(files: Operations, tmp_path: Path) -> None:
    handle = await opened(files, tmp_path / "file", OpenMode.PUBLISH)
    await files.perform(WriteBlock(handle=handle, offset=0, data=b"new"))

    await files.perform(Close(handle=handle, discard=True))

    assert os.listdir(tmp_path) == []


async def test_the_end_closes_all_files_and_publishes_none(tmp_path: Path) -> None:
    handles = HandleTable()
    before = open_descriptors()
    perform(Open(path=bytes(tmp_path / "published"), mode=OpenMode.PUBLISH), handles)
    perform(Open(path=bytes(tmp_path / "replaced"), mode=OpenMode.REPLACE), handles)
    assert len(handles) == 2

    assert handles.end()
    handles.close_all()

    assert os.listdir(tmp_path) == ["replaced"]
    with pytest.raises(OperationFailed, match="ended"):
        perform(Open(path=bytes(tmp_path / "replaced")), handles)
    assert open_descriptors() == before


async def test_a_worker_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    async with worker() as (files, process):
        handle = await opened(files, tmp_path / "file", OpenMode.PUBLISH)
        await files.perform(WriteBlock(handle=handle, offset=0, data=b"half"))
        process.kill()
        with pytest.raises(OperationFailed, match="worker has ended"):
            await files.perform(WriteBlock(handle=handle, offset=4, data=b"more"))

    assert os.listdir(tmp_path) == []

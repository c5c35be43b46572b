"""The worker process and its driver: many operations at once, large ones, and the end of either side."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
import uvloop

from paddock.errors import OperationFailed
from paddock.fs.failure import to_failure
from paddock.fs.framing import HEADER, MAX_FRAME_BYTES, NOT_BEGUN, Reply, write_frame
from paddock.fs.operation import (
    MAX_BLOCK_BYTES,
    Close,
    GetMetadata,
    Open,
    OpenMode,
    ReadBlock,
    WriteBlock,
    WriteFile,
)
from paddock.fs.remote import WorkerOperations
from tests.processes import open_descriptors
from tests.unit.fs.places import start_worker, worker


async def test_many_operations_are_under_way_at_once(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / str(number)).write_bytes(bytes(number))

    async with worker() as (files, _):
        found = await asyncio.gather(
            *(files.perform(GetMetadata(path=bytes(tmp_path / str(number)))) for number in range(200))
        )

    assert [metadata.size_bytes for metadata in found] == list(range(200))


async def test_large_data_crosses_both_ways(tmp_path: Path) -> None:
    data = os.urandom(20_000_000)
    path = bytes(tmp_path / "file")

    async with worker() as (files, _):
        await files.perform(WriteFile(path=path, data=data))
        handle = (await files.perform(Open(path=path))).handle
        assert handle is not None
        pieces = [
            (await files.perform(ReadBlock(handle=handle, offset=at, length=MAX_BLOCK_BYTES))).data
            for at in range(0, len(data), MAX_BLOCK_BYTES)
        ]

    assert b"".join(pieces) == data


async def test_a_cancelled_operation_harms_no_other(tmp_path: Path) -> None:
    async with worker() as (files, _):
        cancelled = asyncio.create_task(files.perform(GetMetadata(path=bytes(tmp_path))))
        await asyncio.sleep(0)
        cancelled.cancel()

        assert (await files.perform(GetMetadata(path=bytes(tmp_path)))).is_directory


async def test_a_worker_ends_with_its_driver_and_discards_what_was_to_be_published(tmp_path: Path) -> None:
    async with worker() as (files, process):
        handle = (await files.perform(Open(path=bytes(tmp_path / "new"), mode=OpenMode.PUBLISH))).handle
        assert handle is not None
        await files.perform(WriteBlock(handle=handle, offset=0, data=b"half"))
        await files.aclose()

        assert process.wait() == 0
        with pytest.raises(OperationFailed, match="ended"):
            await files.perform(Close(handle=handle))

    assert os.listdir(tmp_path) == []


def test_nothing_stays_open_when_a_worker_is_let_go() -> None:
    async def use_worker() -> int:
        async with worker() as (files, _):
            await files.perform(GetMetadata(path=b"/"))
        # The loop closes a transport in its next turn.
        await asyncio.sleep(0)
        return open_descriptors()

    async def use_workers() -> list[int]:
        return [await use_worker() for _ in range(3)]

    # The loop of the server, which itself opens something when it is first used.
    assert len(set(uvloop.run(use_workers()))) == 1


FAULTY = (
    "import paddock.fs.worker as w\n"
    "def fail(operation, handles): raise RecursionError('too \\udcff deep' * 1000)\n"
    "w.perform = fail\n"
)


async def test_a_fault_of_a_worker_is_for_the_log_and_its_client_reads_no_name_of_a_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with worker(preparation=f"exec({FAULTY!r});") as (files, _):
        for _ in range(2):
            with pytest.raises(OperationFailed, match="see the log of the server") as failure:
                await files.perform(GetMetadata(path=b"/"))
            assert "Error" not in str(failure.value)
    [message, _] = [record.getMessage() for record in caplog.records]
    assert message.startswith("file worker failed fault=\"RecursionError('too")
    assert message.endswith(' in fail, line 2"')


async def test_a_worker_that_dies_fails_what_is_under_way() -> None:
    async with worker() as (files, process):
        process.kill()

        with pytest.raises(OperationFailed, match="may or may not have taken effect"):
            await files.perform(GetMetadata(path=b"/"))


async def test_a_worker_that_has_not_begun_says_why_and_nothing_was_done() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        files = await WorkerOperations.attach(ours)
        under_way = asyncio.create_task(files.perform(GetMetadata(path=b"/")))
        await asyncio.sleep(0)
        failure = to_failure(OperationFailed("it can't be confined"))
        theirs.sendall(write_frame(Reply(NOT_BEGUN, failure)))
        theirs.shutdown(socket.SHUT_WR)
        for operation in (under_way, files.perform(GetMetadata(path=b"/"))):
            with pytest.raises(OperationFailed) as refusal:
                await operation
            assert str(refusal.value) == "it can't be confined"
        assert files.has_ended
        await files.aclose()


def test_a_frame_that_is_too_large_or_makes_no_sense_ends_the_worker() -> None:
    for frame in (HEADER.pack(MAX_FRAME_BYTES + 1), HEADER.pack(4) + b"junk"):
        with start_worker("import sys; sys.stderr = None;") as process:
            answers, _ = process.communicate(frame)
            assert answers == b""
            assert process.returncode != 0

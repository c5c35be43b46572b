"""Calls about files that are cancelled at any moment: nothing of them stays open, here or on the server."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import termios
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

import paddock
import paddock.sync
from paddock.client import transfer
from paddock.fs.replacement import Replacement
from paddock.fs.tree_reader import TreeReader
from paddock.fs.tree_writer import TreeWriter
from paddock.server.files import MAX_HANDLES
from tests.processes import children_of, open_descriptors

MIB = 1024 * 1024


@pytest.fixture(name="box")
async def private_box() -> AsyncIterator[paddock.Box]:
    """A server of another process: what is replaced here is the client's."""
    async with paddock.connect() as box:
        yield box


TRIES = 100

TURNS = 4
"""An open is under way after one or two turns of the loop."""


def reading(box: paddock.Box, place: Path) -> AbstractAsyncContextManager[Any]:
    return box.fs.reader(place / "file")


def writing(box: paddock.Box, place: Path) -> AbstractAsyncContextManager[Any]:
    return box.fs.writer(place / "new", atomic=True)


def watching(box: paddock.Box, place: Path) -> AbstractAsyncContextManager[Any]:
    return box.fs.watch(place)


@pytest.mark.parametrize("opening", [reading, writing, watching])
async def test_files_and_watches_whose_opening_was_cancelled_are_not_kept(
    box: paddock.Box,
    tmp_path: Path,
    opening: Callable[[paddock.Box, Path], AbstractAsyncContextManager[Any]],
) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def enter() -> None:
        async with opening(box, tmp_path):
            await asyncio.Event().wait()

    # The server opens only so many for one connection, and a cancellation may be too early or too late.
    for number in range((MAX_HANDLES + 1) * TURNS):
        entering = asyncio.create_task(enter())
        for _ in range(number % TURNS):
            await asyncio.sleep(0)
        entering.cancel()
        await asyncio.wait([entering])
    # A watch ends when the answer tells which one it is.
    for _ in range(TRIES):
        with suppress(paddock.InvalidRequest):
            async with opening(box, tmp_path):
                break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("what was given up stays open")


async def test_a_file_that_goes_before_it_is_looked_at_is_not_kept_open(
    box: paddock.Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    reader = box.fs.reader(tmp_path / "file")

    async def look() -> None:
        raise paddock.NotFound("it is gone")

    monkeypatch.setattr(reader, "_look", look)
    for _ in range(MAX_HANDLES + 1):
        with pytest.raises(paddock.NotFound, match="it is gone"):
            await reader.__aenter__()


class Held:
    """A function that a thread enters, and leaves when it is told to."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.has_begun.set()
        assert self.may_go_on.wait(20.0)
        return self._function(*arguments, **options)


def unread(pipe: int) -> int:
    """The number of bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


async def cancelled(call: Awaitable[None], held: Held) -> None:
    """Cancel a call while it is held up in a thread, more than once, and see it end."""
    calling = asyncio.ensure_future(call)
    await asyncio.to_thread(held.has_begun.wait, 20.0)
    for _ in range(3):
        calling.cancel()
        await asyncio.sleep(0)
    assert not calling.done()
    held.may_go_on.set()
    with suppress(asyncio.CancelledError):
        await calling
    assert calling.cancelled()


def plant(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(os.urandom(2 * MIB))
    (tmp_path / "file").write_bytes(os.urandom(2 * MIB))


@pytest.mark.parametrize(
    ("name", "owner", "function"),
    [
        ("file", transfer, "_write_all"),
        ("file", Replacement, "__init__"),
        ("file", Replacement, "publish"),
        ("tree", TreeWriter, "write"),
    ],
)
async def test_a_cancelled_download_closes_nothing_that_a_thread_still_writes_to(
    box: paddock.Box,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    owner: Any,
    function: str,
) -> None:
    plant(tmp_path)
    await box.fs.download(tmp_path / name, tmp_path / "first")
    before = open_descriptors()
    held = Held(getattr(owner, function))
    # An object with a call would be no method.
    monkeypatch.setattr(owner, function, lambda *arguments, **options: held(*arguments, **options))
    await cancelled(box.fs.download(tmp_path / name, tmp_path / "copy"), held)
    assert open_descriptors() == before
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".paddock")]


async def test_a_cancelled_upload_closes_nothing_that_a_thread_still_reads(
    box: paddock.Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path)
    await box.fs.upload(tmp_path / "tree", tmp_path / "first")
    before = open_descriptors()
    held = Held(TreeReader.read)
    monkeypatch.setattr(TreeReader, "read", lambda *arguments: held(*arguments))
    await cancelled(box.fs.upload(tmp_path / "tree", tmp_path / "copy"), held)
    assert open_descriptors() == before
    assert not (tmp_path / "copy").exists()


async def test_an_upload_from_a_pipe_that_nobody_writes_to_can_be_cancelled(
    box: paddock.Box, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    before = open_descriptors()
    uploading = asyncio.create_task(box.fs.upload(tmp_path / "pipe", tmp_path / "copy"))
    for _ in range(TRIES):
        if open_descriptors() != before:
            break
        await asyncio.sleep(0.01)
    uploading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    assert open_descriptors() == before
    assert not (tmp_path / "copy").exists()


async def test_an_upload_from_a_pipe_that_says_no_more_can_be_cancelled(
    box: paddock.Box, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    # Linux opens it for both at once (fifo(7)).
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(writer, b"some")
    before = open_descriptors()
    uploading = asyncio.create_task(box.fs.upload(tmp_path / "pipe", tmp_path / "copy"))
    for _ in range(TRIES):
        if not unread(writer):
            break
        await asyncio.sleep(0.01)
    uploading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uploading
    assert open_descriptors() == before
    assert not (tmp_path / "copy").exists()
    os.close(writer)


async def test_an_upload_from_a_pipe_sends_all_that_is_written_to_it(
    box: paddock.Box, tmp_path: Path
) -> None:
    pipe, content = tmp_path / "pipe", os.urandom(3 * MIB)
    os.mkfifo(pipe)
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_bytes, content))
    await box.fs.upload(pipe, tmp_path / "copy")
    await writing
    assert (tmp_path / "copy").read_bytes() == content
    # What never waits can't be waited for either.
    await box.fs.upload("/dev/null", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b""


async def test_a_workspace_that_can_not_be_opened_leaves_no_server() -> None:
    before = set(children_of(os.getpid()))
    with pytest.raises(paddock.NotFound):
        async with paddock.Workspace(directory="/nonexistent"):
            pass
    assert set(children_of(os.getpid())) == before


def test_nor_does_one_of_a_program_that_blocks() -> None:
    before, threads = set(children_of(os.getpid())), threading.active_count()
    with pytest.raises(paddock.NotFound), paddock.sync.Workspace(directory="/nonexistent"):
        pass
    assert set(children_of(os.getpid())) == before
    assert threading.active_count() == threads

"""A connection that is lost at each request of each call about files: what is reported is what is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

import paddock
from paddock.errors import ConnectionLost, OperationFailed, WriteLost
from tests.interaction.request_cutter import RequestCut, RequestCutter

AT_ONCE = paddock.ReconnectPolicy(min_delay_s=0, max_delay_s=0, attached_delay_s=0.001, new_session=False)

MIB = 1024 * 1024
OLD = b"old\n"
NEW = bytes(range(256)) * (2 * MIB // 256) + b"end"
"""Three blocks."""


class Place(NamedTuple):
    """A directory of the test: `here` is the client's side, `there` the server's."""

    here: Path
    there: Path


def set_up(root: Path) -> Place:
    """Lay everything out, in a new directory, as it is before a call."""
    place = Place(*(Path(mkdtemp(dir=root)) / side for side in ("here", "there")))
    for path in (place.here / "tree" / "deep", place.there / "tree" / "deep", place.there / "full"):
        path.mkdir(parents=True)
    for side in place:
        (side / "tree" / "deep" / "file").write_bytes(NEW)
    (place.here / "new").write_bytes(NEW)
    (place.there / "file").write_bytes(OLD)
    (place.there / "big").write_bytes(NEW)
    (place.there / "full" / "file").write_bytes(OLD)
    return place


Act = Callable[[paddock.Box, Place], Awaitable[object]]
Look = Callable[[Place], bool]


async def write_in_blocks(box: paddock.Box, place: Place, *, atomic: bool) -> None:
    async with box.path(place.there / "file").writer(atomic=atomic) as file:
        await file.write(NEW)


def is_written(place: Place) -> bool:
    return (place.there / "file").read_bytes() == NEW


def is_tree_there(place: Place) -> bool:
    return (place.there / "copy" / "deep" / "file").exists()


WRITES: dict[str, tuple[Act, Look]] = {
    "write": (lambda box, at: box.path(at.there / "file").write_bytes(NEW), is_written),
    "write atomically": (
        lambda box, at: box.path(at.there / "file").write_bytes(NEW, atomic=True),
        is_written,
    ),
    "write in blocks": (lambda box, at: write_in_blocks(box, at, atomic=False), is_written),
    "write in blocks atomically": (lambda box, at: write_in_blocks(box, at, atomic=True), is_written),
    "upload a file": (lambda box, at: box.fs.upload(at.here / "new", at.there / "file"), is_written),
    "upload a tree": (lambda box, at: box.fs.upload(at.here / "tree", at.there / "copy"), is_tree_there),
    "edit": (
        lambda box, at: box.path(at.there / "file").edit(("old", "new")),
        lambda at: (at.there / "file").read_bytes() == b"new\n",
    ),
    "copy": (lambda box, at: box.fs.copy(at.there / "big", at.there / "file"), is_written),
    "copy a tree": (
        lambda box, at: box.fs.copy(at.there / "tree", at.there / "copy", recursive=True),
        is_tree_there,
    ),
    "make a directory": (
        lambda box, at: box.path(at.there / "made").mkdir(),
        lambda at: (at.there / "made").is_dir(),
    ),
    "make directories": (
        lambda box, at: box.path(at.there / "made" / "deep").mkdir(parents=True),
        lambda at: (at.there / "made" / "deep").is_dir(),
    ),
    "remove a file": (
        lambda box, at: box.path(at.there / "file").unlink(),
        lambda at: not (at.there / "file").exists(),
    ),
    "remove a tree": (
        lambda box, at: box.path(at.there / "full").rmtree(),
        lambda at: not (at.there / "full").exists(),
    ),
}

WHOLE = {"write atomically", "write in blocks atomically", "upload a file", "upload a tree", "edit"}
"""What is the old or the new at every moment."""


async def read_in_blocks(box: paddock.Box, place: Place) -> None:
    async with box.path(place.there / "big").reader() as file:
        (place.here / "read").write_bytes(await file.read())


def is_read(place: Place) -> bool:
    return (place.here / "read").read_bytes() == NEW


READS: dict[str, tuple[Act, Look]] = {
    "read in blocks": (read_in_blocks, is_read),
    "download a file": (lambda box, at: box.fs.download(at.there / "big", at.here / "read"), is_read),
}


@pytest.fixture
async def cutter() -> AsyncIterator[RequestCutter]:
    async with paddock.serve() as server, RequestCutter(server.url) as cutter:
        yield cutter


@pytest.fixture
async def box(cutter: RequestCutter) -> AsyncIterator[paddock.Box]:
    async with paddock.connect(cutter.url, reconnect=AT_ONCE) as box:
        yield box


async def cuts_of(act: Act, box: paddock.Box, cutter: RequestCutter, root: Path) -> list[RequestCut]:
    """Every place where a call can be cut, as a run without a cut shows them."""
    cutter.arm(None)
    await act(box, set_up(root))
    count = len(cutter.methods)
    assert count > 0
    return [
        RequestCut(number, is_carried_out, is_reset=number % 2 == 1)
        for number in range(count)
        for is_carried_out in (False, True)
    ]


async def loss_of(call: Awaitable[object]) -> ConnectionLost | None:
    """Give what a call says of a lost connection, if it does."""
    try:
        await call
    except ConnectionLost as loss:
        return loss
    return None


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_that_reports_success_has_happened_wherever_it_was_cut(
    name: str, box: paddock.Box, cutter: RequestCutter, tmp_path: Path
) -> None:
    act, is_done = WRITES[name]
    for cut in await cuts_of(act, box, cutter, tmp_path):
        place = set_up(tmp_path)
        assert not is_done(place)
        cutter.arm(cut)
        loss = await loss_of(act(box, place))
        if loss is None:
            assert is_done(place), cut
        elif isinstance(loss, WriteLost) and loss.outcome == "unchanged":
            assert (place.there / "file").read_bytes() == OLD
            assert not is_done(place), cut
        else:
            assert isinstance(loss, WriteLost) or "is not known" in str(loss), cut
            if name in WHOLE:
                assert (place.there / "file").read_bytes() in (OLD, NEW, b"new\n"), cut
        assert cutter.is_broken
        cutter.disarm()
        # The box is of use afterwards, and nothing unfinished is left behind.
        assert (await box.path(place.there / "big").stat()).size == len(NEW)


@pytest.mark.parametrize("name", ["write in blocks atomically", "upload a file", "upload a tree"])
@pytest.mark.parametrize("is_carried_out", [False, True])
async def test_what_became_of_a_file_whose_close_was_cut_is_known_for_certain(
    name: str, is_carried_out: bool, box: paddock.Box, cutter: RequestCutter, tmp_path: Path
) -> None:
    act, is_done = WRITES[name]
    *_, last = await cuts_of(act, box, cutter, tmp_path)
    assert cutter.methods[last.number] == "fs/close"
    place = set_up(tmp_path)
    cutter.arm(RequestCut(last.number, is_carried_out))
    if is_carried_out:
        await act(box, place)
        assert is_done(place)
    else:
        with pytest.raises(WriteLost) as caught:
            await act(box, place)
        assert caught.value.outcome == "unchanged"
        assert not is_done(place)


@pytest.mark.parametrize("name", READS)
async def test_a_file_is_read_whole_wherever_the_connection_was_cut(
    name: str, box: paddock.Box, cutter: RequestCutter, tmp_path: Path
) -> None:
    act, is_done = READS[name]
    for cut in await cuts_of(act, box, cutter, tmp_path):
        place = set_up(tmp_path)
        cutter.arm(cut)
        await act(box, place)
        assert is_done(place), cut
        assert cutter.is_broken


async def test_a_tree_is_downloaded_whole_or_the_loss_is_told(
    box: paddock.Box, cutter: RequestCutter, tmp_path: Path
) -> None:
    async def act(box: paddock.Box, place: Place) -> None:
        await box.fs.download(place.there / "tree", place.here / "copy")

    for cut in await cuts_of(act, box, cutter, tmp_path):
        place = set_up(tmp_path)
        cutter.arm(cut)
        copy = place.here / "copy" / "deep" / "file"
        try:
            await act(box, place)
        except ConnectionLost:
            assert cutter.methods[cut.number] == "fs/readBlock", cut
            assert not copy.exists()
        else:
            assert copy.read_bytes() == NEW
        assert cutter.is_broken


@pytest.mark.parametrize("atomic", [False, True])
async def test_a_writer_whose_connection_was_lost_never_succeeds_again(
    atomic: bool, box: paddock.Box, cutter: RequestCutter, tmp_path: Path
) -> None:
    place = set_up(tmp_path)
    file = await box.path(place.there / "file").writer(atomic=atomic).__aenter__()
    cutter.arm(RequestCut(0, is_carried_out=True))
    with pytest.raises(WriteLost):
        # More than a window: the loss shows in here.
        await file.write(NEW * 3)
    for _ in range(2):
        with pytest.raises(WriteLost):
            await file.write(b"more")
        with pytest.raises(WriteLost):
            await file.aclose()
    await file.discard()
    with pytest.raises(WriteLost):
        await file.__aexit__(None, None, None)
    assert not is_written(place)


async def test_a_writer_of_which_a_block_failed_never_succeeds_again(
    box: paddock.Box, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()

    async def write() -> None:
        async with box.fs.tree_writer(tmp_path / "copy") as file:
            for _ in range(10):
                try:
                    await file.write(b"no archive" * MIB)
                except paddock.RequestError:
                    continue

    with pytest.raises(paddock.RequestError):
        await write()
    assert not (tmp_path / "copy").exists()


async def test_a_file_whose_connection_was_lost_before_its_close_is_not_there(
    box: paddock.Box, cutter: RequestCutter, tmp_path: Path
) -> None:
    place = set_up(tmp_path)

    async def write() -> None:
        async with box.path(place.there / "file").writer(atomic=True) as file:
            await file.write(NEW)
            while file._window:
                await file._settle()
            cutter.arm(RequestCut(0, is_carried_out=False))
            # Whatever is asked for next is cut, and comes through on another connection.
            await box.path(place.there / "big").stat()

    with pytest.raises(WriteLost, match="is unchanged"):
        await write()
    assert (place.there / "file").read_bytes() == OLD


async def test_a_write_that_was_cancelled_in_the_middle_is_not_published(
    box: paddock.Box, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(OLD)

    async def write() -> None:
        async with box.path(tmp_path / "file").writer(atomic=True) as file:
            writing = asyncio.create_task(file.write(NEW * 4))
            # It waits for the first answer now.
            await asyncio.sleep(0)
            writing.cancel()
            await asyncio.wait([writing])

    with pytest.raises(OperationFailed, match="given up"):
        await write()
    assert (tmp_path / "file").read_bytes() == OLD

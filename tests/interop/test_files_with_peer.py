"""Paddock's client works with files on the peer's server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import paddock
from paddock.errors import CapabilityMissing, InvalidRequest, NotFound, OperationFailed

MIB = 1 << 20


async def test_files_are_written_read_and_described(peer_url: str, tmp_path: Path) -> None:
    async with paddock.connect(peer_url) as box:
        path = box.path(tmp_path) / "ä b"
        await path.write_text("hello")
        assert await path.read_text() == "hello"
        found = await path.stat()
        assert (found.size, found.is_file, found.is_symlink) == (5, True, False)
        big = os.urandom(9 * MIB + 1)
        await path.write_bytes(big)
        assert await path.read_bytes() == big
        assert await path.resolve() == path


async def test_directories_are_made_listed_copied_and_removed(peer_url: str, tmp_path: Path) -> None:
    async with paddock.connect(peer_url) as box:
        root = box.path(tmp_path)
        await (root / "a" / "b").mkdir(parents=True)
        await (root / "a" / "b" / "f").write_text("x")
        await (root / "a").copy(root / "c", recursive=True)
        assert [path.name for path in await root.iterdir()] == ["a", "c"]
        assert (await root.walk()).files == [f"{tmp_path}/a/b/f", f"{tmp_path}/c/b/f"]
        await (root / "a").rmtree()
        assert not await (root / "a").exists()
        with pytest.raises(NotFound):
            await (root / "a").unlink()
        with pytest.raises(OperationFailed):
            await (root / "c").mkdir()
        with pytest.raises(InvalidRequest):
            await (root / "c").read_bytes()


async def test_what_the_peer_lacks_is_refused_before_anything_is_sent(peer_url: str, tmp_path: Path) -> None:
    async with paddock.connect(peer_url) as box:
        with pytest.raises(CapabilityMissing, match="atomically"):
            await box.path(tmp_path / "x").write_text("x", atomic=True)
        with pytest.raises(CapabilityMissing, match="as a whole"):
            box.fs.tree_reader(tmp_path)
    assert os.listdir(tmp_path) == []


async def test_trees_go_there_and_back_file_by_file(peer_url: str, tmp_path: Path) -> None:
    here = tmp_path / "here"
    (here / "sub" / "empty").mkdir(parents=True)
    (here / "sub" / "file").write_bytes(os.urandom(2 * MIB))
    async with paddock.connect(peer_url) as box:
        await box.fs.upload(here, tmp_path / "there")
        await box.fs.download(tmp_path / "there", tmp_path / "back")
        (here / "link").symlink_to("sub")
        with pytest.raises(OperationFailed, match="symbolic link"):
            await box.fs.upload(here, tmp_path / "again")
        with pytest.raises(OperationFailed, match="symbolic link"):
            await box.fs.download(here, tmp_path / "more")
    assert (tmp_path / "back" / "sub" / "file").read_bytes() == (here / "sub" / "file").read_bytes()
    assert (tmp_path / "back" / "sub" / "empty").is_dir()

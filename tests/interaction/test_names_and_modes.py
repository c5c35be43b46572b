"""Other names, modes, patterns, links to nowhere, and watches for programs that block."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import paddock
import paddock.sync
from tests.wire import served


@pytest.fixture
async def box() -> AsyncIterator[paddock.Box]:
    async with served() as server, paddock.connect(server.url) as box:
        yield box


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_rename_replaces_a_file_and_moves_a_link_itself(box: paddock.Box, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("new content")
    (tmp_path / "there").write_text("old content")
    moved = await box.path(tmp_path / "old").rename(tmp_path / "there")
    assert await moved.read_text() == "new content"
    (tmp_path / "link").symlink_to("there")
    await box.path(tmp_path / "link").rename(tmp_path / "other")
    assert (tmp_path / "other").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["other", "there"]


@pytest.mark.parametrize("profile", [None, ":workspace"])
async def test_rename_to_another_name_of_the_same_file_leaves_that_name(
    box: paddock.Box, tmp_path: Path, profile: str | None
) -> None:
    (tmp_path / "old").write_text("content")
    (tmp_path / "sub").mkdir()
    for name in ("new", "sub/old", "kept"):
        (tmp_path / name).hardlink_to(tmp_path / "old")
    old = box.path(tmp_path / "old", sandbox=profile)
    await old.rename(tmp_path / "old")
    assert (tmp_path / "old").exists()
    await old.rename(tmp_path / "new")
    assert sorted(os.listdir(tmp_path)) == ["kept", "new", "sub"]
    moved = await box.path(tmp_path / "new", sandbox=profile).rename(tmp_path / "sub" / "old")
    assert await moved.read_text() == "content"
    assert sorted(os.listdir(tmp_path)) == ["kept", "sub"]
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "other link").hardlink_to(tmp_path / "link")
    await box.path(tmp_path / "link", sandbox=profile).rename(tmp_path / "other link")
    assert sorted(os.listdir(tmp_path)) == ["kept", "other link", "sub"]


async def test_rename_of_nothing_is_not_found(box: paddock.Box, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        await box.path(tmp_path / "missing").rename(tmp_path / "x")
    assert caught.value.filename == str(tmp_path / "missing")
    (tmp_path / "here").touch()
    with pytest.raises(FileNotFoundError) as caught:
        await box.path(tmp_path / "here").rename(tmp_path / "no" / "x")
    assert caught.value.filename == str(tmp_path / "no" / "x")


@pytest.mark.parametrize("profile", [None, ":workspace"])
async def test_content_of_a_directory_is_an_error_as_of_pathlib(
    box: paddock.Box, tmp_path: Path, profile: str | None
) -> None:
    directory = box.path(tmp_path, sandbox=profile)
    for attempt in (directory.read_bytes, directory.read_text, lambda: directory.write_text("x")):
        with pytest.raises(IsADirectoryError) as caught:
            await attempt()
        assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, str(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="is not a file"):
        await (directory / "fifo").read_bytes()


async def test_mode_is_told_and_set(box: paddock.Box, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    await box.path(file).chmod(0o751)
    assert mode_of(file) == 0o751
    assert (await box.path(file).stat()).mode == 0o751


async def test_change_that_was_told_to_follow_no_links_follows_none(box: paddock.Box, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    (real / "file").write_text("old")
    (real / "file").chmod(0o640)
    link.symlink_to(real)
    (real / "other").symlink_to("file")
    for path in (link / "file", real / "other"):
        with pytest.raises(paddock.RequestError):
            await box.fs.chmod(path, 0o600, follow_symlinks=False)
        with pytest.raises(paddock.RequestError):
            await box.fs.edit(path, ("old", "new"), follow_symlinks=False)
    assert ((real / "file").read_text(), mode_of(real / "file")) == ("old", 0o640)
    await box.fs.edit(real / "file", ("old", "new"), follow_symlinks=False)
    await box.fs.chmod(real / "file", 0o600, follow_symlinks=False)
    assert ((real / "file").read_text(), mode_of(real / "file")) == ("new", 0o600)


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o10644])
async def test_mode_that_gives_rights_of_others_is_refused(
    box: paddock.Box, tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "file"
    file.touch(0o644)
    with pytest.raises(paddock.InvalidRequest, match="is not between 0 and 1777"):
        await box.path(file).chmod(mode)
    assert mode_of(file) & ~0o777 == 0


async def test_glob_finds_what_fits(box: paddock.Box, tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt"):
        (tmp_path / name).touch()
    found = await box.path(tmp_path).glob("**/*.py")
    assert [str(path.relative_to(tmp_path)) for path in map(Path, found)] == [
        "a.py",
        "src/b.py",
        "src/deep/c.py",
    ]
    assert [path.name for path in await box.path(tmp_path).glob("*")] == ["a.py", "src"]


async def test_links_to_nowhere_and_in_circles_are_listed(box: paddock.Box, tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "real").touch()
    directory = box.path(tmp_path)
    assert [path.name for path in await directory.iterdir()] == ["dangling", "loop", "real"]
    assert await (directory / "dangling").is_symlink()
    assert await (directory / "loop").is_symlink()
    assert not await (directory / "real").is_symlink()
    assert not await (directory / "missing").is_symlink()


async def test_transfers_keep_what_is_executable(box: paddock.Box, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    plain = tmp_path / "plain"
    plain.touch(0o644)
    await box.fs.upload(tool, tmp_path / "up")
    await box.fs.upload(plain, tmp_path / "up-plain")
    await box.fs.download(tmp_path / "up", tmp_path / "down")
    await box.fs.download(tmp_path / "up-plain", tmp_path / "down-plain")
    assert (await box.run([str(tmp_path / "up")])).stdout == b"ran\n"
    assert os.access(tmp_path / "down", os.X_OK)
    assert not mode_of(tmp_path / "up-plain") & 0o111
    assert not mode_of(tmp_path / "down-plain") & 0o111


def test_blocking_watch_tells_changes(tmp_path: Path) -> None:
    with paddock.sync.connect() as box, box.path(tmp_path).watch() as watch:
        (tmp_path / "new").touch()
        changes = next(iter(watch)).changes
    assert [Path(change.path).name for change in changes] == ["new"]


def test_blocking_paths_have_the_same_methods(tmp_path: Path) -> None:
    with paddock.sync.connect() as box:
        file = box.path(tmp_path / "file")
        file.write_text("x")
        file.chmod(0o700)
        moved = file.rename(tmp_path / "moved")
        assert moved.stat().mode == 0o700
        assert [path.name for path in box.path(tmp_path).glob("m*")] == ["moved"]

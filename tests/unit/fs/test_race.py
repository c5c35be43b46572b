"""A path that becomes a link while it is used: nothing that follows no links ever gets out."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import RequestError
from paddock.fs import resolve
from paddock.fs.handle import HandleTable
from paddock.fs.operation import (
    MIB,
    ChangeMode,
    Copy,
    CreateDirectory,
    Edit,
    GetMetadata,
    Open,
    Operation,
    Remove,
    TextEdit,
    Walk,
    WriteFile,
)
from paddock.fs.perform import perform
from tests.unit.fs.swapper import swapping

ROUNDS = 600
REMOVALS = 10
EDITS = 1500

INSIDE, OUTSIDE = 4, 7
"""Sizes of the files, which tell on which side one was found."""


@pytest.fixture(params=["openat2", "step by step"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    if request.param != "openat2":
        monkeypatch.setattr(resolve, "openat2", refuse)


def attempts(directory: Path) -> list[Operation[Any]]:
    path = bytes(directory)
    return [
        Open(path=path + b"/file", follow=False, prefetch_bytes=100),
        WriteFile(path=path + b"/file", data=b"safe", follow=False),
        WriteFile(path=path + b"/atomic", data=b"safe", follow=False, is_atomic=True),
        GetMetadata(path=path + b"/file", follow=False),
        CreateDirectory(path=path + b"/made/deep", follow=False),
        Remove(path=path + b"/victim", recursive=False, force=False, follow=False),
        ChangeMode(path=path + b"/edited", mode=0o600, follow=False),
        Edit(path=path + b"/edited", edits=[TextEdit(old=b"a", new=b"b")], max_bytes=100, follow=False),
        Edit(path=path + b"/edited", edits=[TextEdit(old=b"b", new=b"a")], max_bytes=100, follow=False),
    ]


@pytest.mark.usefixtures("kernel")
def test_nothing_is_done_behind_a_directory_that_becomes_a_link(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    inside, outside = root / "inside", root / "outside"
    for directory, size in ((inside, INSIDE), (outside, OUTSIDE)):
        directory.mkdir()
        (directory / "file").write_bytes(b"x" * size)
        (directory / "victim").touch()
        (directory / "edited").write_bytes(b"a")
        (directory / "edited").chmod(0o644)
    untouched = (outside / "edited").stat()
    (root / "link").symlink_to(outside)
    operations = attempts(inside)
    handles = HandleTable()
    succeeded = refused = 0

    with swapping(inside, root / "link"):
        for _ in range(ROUNDS):
            for operation in operations:
                try:
                    answer = perform(operation, handles)
                except RequestError:
                    refused += 1
                else:
                    succeeded += 1
                    assert getattr(answer, "size_bytes", INSIDE) == INSIDE

    # It was a race indeed.
    assert succeeded
    assert refused
    assert sorted(os.listdir(outside)) == ["edited", "file", "victim"]
    assert (outside / "file").stat().st_size == OUTSIDE
    edited = (outside / "edited").stat()
    assert (edited.st_ino, edited.st_mode) == (untouched.st_ino, untouched.st_mode)


@pytest.mark.usefixtures("kernel")
def test_no_walk_and_no_copy_enters_a_directory_that_becomes_a_link(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    tree = root / "tree"
    (tree / "d" / "inner").mkdir(parents=True)
    (root / "outside" / "secret").mkdir(parents=True)
    (root / "link").symlink_to(root / "outside")
    handles = HandleTable()
    walk = Walk(
        path=bytes(tree),
        max_depth=9,
        max_directories=99,
        max_entries=99,
        max_bytes=MIB,
        follow_directory_links=False,
        prune_hidden=False,
    )

    with swapping(tree / "d", root / "link"):
        for _ in range(ROUNDS):
            walked = perform(walk, handles)
            assert all(b"secret" not in directory.names for directory in walked.directories)
            with suppress(RequestError):
                perform(Copy(source=bytes(tree), destination=bytes(root / "copy"), recursive=True), handles)
            assert not (root / "copy" / "d" / "secret").exists() or (root / "copy" / "d").is_symlink()
            shutil.rmtree(root / "copy", ignore_errors=True)


def test_no_removal_enters_a_directory_that_becomes_a_link(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "outside" / "kept").mkdir(parents=True)
    handles = HandleTable()

    for number in range(REMOVALS):
        tree, link = root / f"tree{number}", root / f"link{number}"
        for name in range(100):
            (tree / str(name) / "inner").mkdir(parents=True)
        link.symlink_to(root / "outside")
        # Whichever of the two is in the tree at the last moment goes; the other one is left.
        with swapping(tree / "50", link, at_least=0), suppress(RequestError):
            perform(Remove(path=bytes(tree), recursive=True, force=True), handles)

    assert os.listdir(root / "outside") == ["kept"]


def test_an_edit_replaces_the_file_that_it_has_read(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    inside, outside = root / "inside", root / "outside"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "file").write_text(f"{directory.name} 0")
    (root / "link").symlink_to(outside)
    handles = HandleTable()
    with swapping(inside, root / "link"):
        for number in range(EDITS):
            change = TextEdit(old=b" %d" % (number % 2), new=b" %d" % ((number + 1) % 2))
            for _ in range(2):
                with suppress(RequestError):
                    perform(Edit(path=bytes(inside / "file"), edits=[change], max_bytes=100), handles)
    for directory in (inside, outside):
        assert (directory / "file").read_text().split()[0] == directory.name

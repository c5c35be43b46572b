"""What is put in its place as a whole is there exactly if nobody says otherwise."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from paddock.errors import OperationFailed, RequestError
from paddock.fs import directory_lock, resolve, unfinished_tree
from paddock.fs.operation import MIB, Edit, Search, SearchKind, TextEdit
from paddock.fs.operations import Operations
from paddock.fs.replacement import Replacement
from paddock.fs.search import search
from paddock.fs.tree_writer import TreeWriter
from tests.sandbox.shortage import room_for
from tests.unit.fs.places import NOBODY

DEPTH = 60


@contextmanager
def exact_room_for(descriptors: int) -> Iterator[None]:
    """Let so many more be opened."""
    with room_for(descriptors):
        # By this one its directory was listed, to see which were used.
        spare = os.open("/", os.O_PATH)
        try:
            yield
        finally:
            os.close(spare)


def replacement_of(file: Path) -> Replacement:
    file.write_text("old")
    replacement = Replacement(bytes(file), follow=True)
    os.write(replacement.descriptor, b"new")
    return replacement


def test_a_file_whose_directory_can_not_be_opened_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    replacement = replacement_of(file)
    with exact_room_for(0), pytest.raises(OSError, match="Too many open files"):
        replacement.publish()
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@contextmanager
def locked_by_another(directory: Path) -> Iterator[None]:
    """Hold the lock that every program may hold that can read the directory."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def test_a_file_is_replaced_on_a_condition_while_nobody_else_replaces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    assert not replacement_of(file).publish_if(lambda: False)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]

    def is_locked() -> bool:
        with pytest.raises(BlockingIOError), locked_by_another(tmp_path):
            pass
        return True

    monkeypatch.setattr(fcntl, "flock", partial(never_waiting, fcntl.flock))
    assert replacement_of(file).publish_if(is_locked)
    assert file.read_text() == "new"
    with locked_by_another(tmp_path):
        pass


def never_waiting(flock: Callable[[int, int], None], descriptor: int, operation: int) -> None:
    flock(descriptor, operation | (0 if operation == fcntl.LOCK_UN else fcntl.LOCK_NB))


def test_a_program_that_keeps_a_directory_locked_keeps_nobody_from_replacing_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_lock, "WAIT_S", 0.01)
    file = tmp_path / "file"
    for publish, is_done in (
        (lambda replacement: replacement.publish_if(lambda: False), False),
        (lambda replacement: replacement.publish_if(lambda: True), True),
        (Replacement.publish, None),
    ):
        file.write_text("old")
        with locked_by_another(tmp_path):
            assert publish(replacement_of(file)) is is_done
        assert file.read_text() == ("old" if is_done is False else "new")


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK])
def test_a_file_is_replaced_on_a_condition_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    file = tmp_path / "file"
    assert replacement_of(file).publish_if(lambda: True)
    assert file.read_text() == "new"


async def test_a_file_is_edited_in_a_directory_that_may_not_be_listed(
    ordinary_files: Operations, open_place: Path
) -> None:
    file = open_place / "file"
    file.write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    os.chmod(open_place, 0o333)
    try:
        edits = [TextEdit(old=b"old", new=b"new", count=1)]
        await ordinary_files.perform(Edit(path=bytes(file), edits=edits, max_bytes=100))
    finally:
        os.chmod(open_place, 0o755)
    assert file.read_bytes() == b"new"


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL])
def test_a_file_in_its_place_is_said_to_be_there_though_its_directory_can_not_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    file = tmp_path / "file"
    replacement = replacement_of(file)
    fsync = os.fsync

    def fail_for_directories(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_directories)
    if number == errno.EINVAL:
        replacement.publish()
    else:
        with pytest.raises(OperationFailed, match="is in its place, but may be lost"):
            replacement.publish()
    assert file.read_text() == "new"


def archive() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in ("a", "a/b", "c"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    return data.getvalue()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOENT])
def test_a_tree_in_its_place_is_said_to_be_there_though_a_mode_can_not_be_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    tree = TreeWriter(bytes(tmp_path / "tree"))
    tree.write(archive())
    open_beneath = resolve.open_beneath

    def fail_for_one(directory: int, path: bytes) -> int:
        if path == b"a/b" and (tmp_path / "tree").exists():
            raise OSError(number, os.strerror(number))
        return open_beneath(directory, path)

    monkeypatch.setattr(resolve, "open_beneath", fail_for_one)
    if number == errno.ENOENT:
        # Somebody has removed it: the tree is everybody's by then.
        tree.publish()
    else:
        with pytest.raises(OperationFailed, match="is in its place"):
            tree.publish()
    assert stat.S_IMODE((tmp_path / "tree/a").stat().st_mode) == 0o755
    assert os.listdir(tmp_path) == ["tree"]


def test_an_unfinished_tree_of_any_depth_is_removed_with_two_descriptors(tmp_path: Path) -> None:
    parent = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        name, directory = unfinished_tree.make_in(parent)
        deep = tmp_path / os.fsdecode(name)
        for _ in range(DEPTH):
            deep = deep / "d"
            deep.mkdir()
            (deep / "file").touch()
            (deep / "link").symlink_to("/")
            (deep / "other").mkdir()
        with exact_room_for(2):
            unfinished_tree.remove(directory, name, parent)
        os.close(directory)
    finally:
        os.close(parent)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("use_ripgrep", [False, True])
def test_a_search_without_room_fails_as_requests_do(tmp_path: Path, use_ripgrep: bool) -> None:
    (tmp_path / "file").write_text("needle\n")
    operation = Search(
        path=bytes(tmp_path),
        pattern="n.edle",
        kind=SearchKind.CONTENT,
        is_regex=True,
        is_case_sensitive=True,
        is_hidden_included=False,
        max_matches=10,
        max_file_bytes=MIB,
        timeout_s=20.0,
        use_ripgrep=use_ripgrep,
    )
    for room in range(8):
        with room_for(room), suppress(RequestError):
            search(operation)
    assert len(search(operation).matches) == 1

"""The submodules in an index, as git itself writes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from paddock.errors import ProfileRefused
from paddock.sandbox.host import facts
from paddock.sandbox.host.facts import INDEX_PART_BYTES, FileFacts
from paddock.sandbox.host.git_index import (
    GITLINK_BYTES,
    GITLINKS_LIMIT,
    NAME_LIMIT_BYTES,
    NAMES_LIMIT_BYTES,
    Index,
    UnreadableIndex,
    read_index,
)
from paddock.sandbox.host.step_budget import TakesLong, step_budget

GIT = shutil.which("git")
COMMIT = "1234567890123456789012345678901234567890"
ENVIRONMENT = {"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def _git(directory: Path, *arguments: str) -> None:
    assert GIT is not None
    subprocess.run([GIT, *arguments], cwd=directory, check=True, env=ENVIRONMENT, capture_output=True)


def _repository(directory: Path, *options: str, version: int = 2) -> Path:
    _git(directory, "init", "-q", *options, ".")
    _git(directory, "config", "index.version", str(version))
    for name in ("a", "libs-and-more", "z/y/x"):
        (directory / name).parent.mkdir(exist_ok=True, parents=True)
        (directory / name).write_text(name)
    _git(directory, "add", ".")
    return directory


def _add_submodule(directory: Path, path: str, commit: str = COMMIT) -> None:
    _git(directory, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")


needs_git = pytest.mark.skipif(GIT is None, reason="git is not installed")


@needs_git
@pytest.mark.parametrize("version", [2, 3, 4])
def test_submodules_are_found_in_every_version(version: int, tmp_path: Path) -> None:
    _repository(tmp_path, version=version)
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ()
    for path in ("libs/one", "libs/two", "a-third"):
        _add_submodule(tmp_path, path)
    assert set(FileFacts().gitlinks(str(tmp_path / ".git"))) == {"libs/one", "libs/two", "a-third"}


@needs_git
def test_submodules_are_found_with_longer_hashes(tmp_path: Path) -> None:
    _repository(tmp_path, "--object-format=sha256")
    _add_submodule(tmp_path, "sub", COMMIT + COMMIT[:24])
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ("sub",)


@needs_git
def test_submodules_are_found_in_an_index_of_two_files(tmp_path: Path) -> None:
    _repository(tmp_path)
    _add_submodule(tmp_path, "sub")
    _git(tmp_path, "update-index", "--split-index")
    (tmp_path / "more").write_text("more")
    _git(tmp_path, "add", "more")
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ("sub",)


@needs_git
@pytest.mark.parametrize("version", [2, 4])
def test_other_commit_of_a_submodule_in_a_shared_index_changes_nothing(version: int, tmp_path: Path) -> None:
    """Its entry has no name then, and replaces the one in the shared file."""
    _repository(tmp_path, version=version)
    names = {f"sub{number:03}" for number in range(0, 200, 3)}
    for name in sorted(names):
        _add_submodule(tmp_path, name)
    _git(tmp_path, "config", "splitIndex.maxPercentChange", "100")
    _git(tmp_path, "update-index", "--split-index")
    (tmp_path / "libs-and-more").write_text("more")
    _git(tmp_path, "add", "libs-and-more")
    for name in ("sub003", "sub009", "sub198"):
        _add_submodule(tmp_path, name, COMMIT[::-1])
    _git(tmp_path, "rm", "--cached", "sub006")
    assert set(FileFacts().gitlinks(str(tmp_path / ".git"))) == names
    (index,) = (tmp_path / ".git").glob("index")
    assert len(read_index(index.read_bytes()).replaced) == 3


@needs_git
def test_submodule_in_place_of_a_file_of_a_shared_index_is_refused(tmp_path: Path) -> None:
    """Only the shared file has its name, which nobody looks for there."""
    _repository(tmp_path)
    for name in ("first", "last"):
        _add_submodule(tmp_path, name)
    _git(tmp_path, "config", "splitIndex.maxPercentChange", "100")
    _git(tmp_path, "update-index", "--split-index")
    _add_submodule(tmp_path, "libs-and-more")
    with pytest.raises(ProfileRefused, match="in place of files"):
        FileFacts().gitlinks(str(tmp_path / ".git"))
    _git(tmp_path, "update-index", "--no-split-index")
    assert set(FileFacts().gitlinks(str(tmp_path / ".git"))) == {"first", "last", "libs-and-more"}


@needs_git
@pytest.mark.parametrize("names", [["lib8"], ["a", "b", "zz/b"], ["lib"], ["one/rather/long/name"]])
def test_longer_hashes_are_never_taken_for_shorter_ones(names: list[str], tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q", "--object-format=sha256", ".")
    for number, name in enumerate(names):
        _add_submodule(tmp_path, name, f"{number}" + COMMIT + COMMIT[:23])
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == tuple(names)


@needs_git
def test_submodule_that_is_left_out_of_the_working_tree_is_found(tmp_path: Path) -> None:
    """Git counts it again as soon as there is something in its place."""
    _repository(tmp_path)
    _add_submodule(tmp_path, "sub")
    _git(tmp_path, "update-index", "--skip-worktree", "sub")
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ("sub",)


@needs_git
def test_submodules_are_found_beyond_the_first_part_that_is_searched(tmp_path: Path) -> None:
    _repository(tmp_path)
    names = "".join(f"100644 {COMMIT} 0\ta/{number:0100}\n" for number in range(12_000))
    assert GIT is not None
    words = [GIT, "update-index", "--index-info"]
    subprocess.run(words, cwd=tmp_path, check=True, env=ENVIRONMENT, input=names.encode())
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ()
    _add_submodule(tmp_path, "z-last")
    assert (tmp_path / ".git" / "index").stat().st_size > INDEX_PART_BYTES
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ("z-last",)


@needs_git
@pytest.mark.parametrize("version", [2, 4])
def test_directories_of_a_sparse_index_are_found(version: int, tmp_path: Path) -> None:
    _repository(tmp_path, version=version)
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    _git(tmp_path, *identity, "commit", "-qm", "one")
    assert FileFacts().sparse_directories(str(tmp_path / ".git")) == ()
    _git(tmp_path, "sparse-checkout", "set", "--cone", "--sparse-index", "z/x")
    assert FileFacts().sparse_directories(str(tmp_path / ".git")) == ("z/y",)
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ()


def test_what_is_no_index_has_none() -> None:
    for data in (b"", b"DIRC", b"no index \0\0\xe0\0", b"DIRC\0\0\0\2\0\0\0\1"):
        assert read_index(data) == Index()


def _growing(count: int, added: bytes = b"a") -> bytes:
    """An index of the fourth version in which each name is the one before and some more."""
    lengths = (min(number * len(added), 0xFFF).to_bytes(2, "big") for number in range(1, count + 1))
    entries = [bytes(24) + GITLINK_BYTES + bytes(32) + length + b"\0" + added for length in lengths]
    return b"DIRC" + struct.pack(">II", 4, count) + b"\0".join([*entries, bytes(20)])


def test_names_may_grow_from_one_to_the_next() -> None:
    assert read_index(_growing(3)).gitlinks == (b"a", b"aa", b"aaa")


@pytest.mark.parametrize(
    "data",
    [
        b"DIRC\0\0\0\2\0\0\0\1\0\0\xe0\0",
        b"DIRC\0\0\0\2\xff\xff\xff\xff" + b"\0\0\xe0\0" * 100,
        b"DIRC\0\0\0\4\0\0\0\2" + b"\xff" * 24 + b"\0\0\xe0\0" + b"\xff" * 100,
        pytest.param(_growing(3).replace(b"\0\0\xe0\0", b"\0\0\xff\0", 1), id="mode"),
        pytest.param(_growing(3)[:-20] + b"\0TREE\0\0\xff\xff" + bytes(20), id="extension"),
        pytest.param(_growing(GITLINKS_LIMIT + 1), id="many"),
        pytest.param(_growing(100_000), id="quadratic"),
        pytest.param(_growing(3, b"a" * (NAME_LIMIT_BYTES // 2)), id="long"),
        pytest.param(_growing(400, b"a" * 10), id="long together"),
    ],
)
def test_index_that_is_damaged_or_hostile_is_refused_in_words(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnreadableIndex):
        read_index(data)
    (tmp_path / "index").write_bytes(data)
    with pytest.raises(ProfileRefused, match="mend it with git"):
        FileFacts().gitlinks(str(tmp_path))


def test_index_that_is_too_large_is_refused_if_it_may_name_submodules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "INDEX_LIMIT_BYTES", 100)
    (tmp_path / "index").write_bytes(b"DIRC" + bytes(200))
    assert FileFacts().gitlinks(str(tmp_path)) == ()
    (tmp_path / "index").write_bytes(_growing(3))
    with pytest.raises(ProfileRefused, match="too large"):
        FileFacts().gitlinks(str(tmp_path))


def test_hostile_index_takes_little_memory() -> None:
    data = _growing(100_000)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableIndex):
            read_index(data)
        assert tracemalloc.get_traced_memory()[1] < 4 * NAMES_LIMIT_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["index", "commondir"])
def test_nobody_waits_for_a_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert FileFacts().gitlinks(str(tmp_path)) == ()
    assert FileFacts().commondir(str(tmp_path)) is None


def _large_index(submodule_count: int) -> bytes:
    """An index of 10,000 files and some submodules, with hashes of 20 bytes."""
    modes = [0o100644] * 10_000 + [0o160000] * submodule_count
    entries = [struct.pack(">10I20xH", *[0] * 6, mode, *[0] * 3, 1) + b"a\0" for mode in modes]
    return b"DIRC" + struct.pack(">II", 2, len(entries)) + b"".join(entries) + bytes(20)


@pytest.mark.parametrize("indexes", [1, 50], ids=["one large", "many"])
def test_what_takes_long_to_read_is_not_read_in_haste(indexes: int, tmp_path: Path) -> None:
    large, submodule = _large_index(1), b"DIRC" + struct.pack(">II", 2, 1) + _large_index(1)[-84:]
    for number in range(indexes):
        (tmp_path / f"{number}").mkdir()
        # As large as all that is read within a budget, if there are many.
        content = large if indexes == 1 else submodule + bytes(8192)
        (tmp_path / f"{number}" / "index").write_bytes(content)

    def look() -> None:
        for number in range(indexes):
            with contextlib.suppress(ProfileRefused):
                FileFacts().gitlinks(str(tmp_path / f"{number}"))

    with pytest.raises(TakesLong), step_budget():
        look()
    look()
    # What was read is known from now on.
    with step_budget():
        look()


def test_reason_why_an_index_can_not_be_read_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index").write_bytes(_large_index(GITLINKS_LIMIT + 1))
    with pytest.raises(ProfileRefused, match="more than 1000"):
        FileFacts().gitlinks(str(tmp_path))
    monkeypatch.setattr(facts, "read_index", None)
    with step_budget(), pytest.raises(ProfileRefused, match="more than 1000"):
        FileFacts().gitlinks(str(tmp_path))


def test_index_that_is_too_large_to_be_searched_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index").touch()
    os.truncate(tmp_path / "index", 1 << 40)
    with pytest.raises(ProfileRefused, match="too large"):
        FileFacts().gitlinks(str(tmp_path))

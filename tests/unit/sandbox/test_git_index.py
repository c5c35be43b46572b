"""The submodules in an index, as git itself writes it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from paddock.sandbox.facts import FileFacts
from paddock.sandbox.git_index import Index, read_index

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
def test_submodule_that_is_left_out_of_the_working_tree_is_none(tmp_path: Path) -> None:
    _repository(tmp_path)
    _add_submodule(tmp_path, "sub")
    _git(tmp_path, "update-index", "--skip-worktree", "sub")
    assert FileFacts().gitlinks(str(tmp_path / ".git")) == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"DIRC",
        b"no index \0\0\xe0\0",
        b"DIRC\0\0\0\2\0\0\0\1\0\0\xe0\0",
        b"DIRC\0\0\0\2\xff\xff\xff\xff" + b"\0\0\xe0\0" * 100,
        b"DIRC\0\0\0\4\0\0\0\2" + b"\xff" * 24 + b"\0\0\xe0\0" + b"\xff" * 100,
    ],
)
def test_what_is_no_index_has_none(data: bytes) -> None:
    assert read_index(data) == Index()


@pytest.mark.parametrize("name", ["index", "commondir"])
def test_nobody_waits_for_a_pipe(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    assert FileFacts().gitlinks(str(tmp_path)) == ()
    assert FileFacts().commondir(str(tmp_path)) is None

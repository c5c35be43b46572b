"""The compiled looks say the same as those in Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.sandbox.host import linkless

NAMES = (
    "directory",
    "directory/file",
    "directory/missing",
    "directory/missing/deeper",
    "directory/file/below",
    "link",
    "link/file",
    "link/missing",
    "dangling",
    "loop",
    "loop/below",
    "fifo",
    "directory/inner link",
    "directory/inner link/file",
    "directory//file",
    "directory/",
    "directory/.",
    "directory/./file",
    "directory/..",
    "link/../directory",
    "...",
    "x" * 300,
    "\udcff",
    "/".join(["deep"] * 2000),
)
ELSEWHERE = (
    "/",
    "//",
    "/.",
    "/..",
    "/proc/self",
    "/proc/self/exe",
    "/dev/null",
    "/missing",
    "",
)


@pytest.fixture(name="paths")
def make_files(tmp_path: Path) -> list[str]:
    directory = tmp_path / "directory"
    directory.mkdir()
    (directory / "file").write_text("hello")
    os.link(directory / "file", tmp_path / "second name")
    (directory / "inner link").symlink_to(".")
    (tmp_path / "link").symlink_to("directory")
    (tmp_path / "dangling").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    return [*(f"{tmp_path}/{name}" for name in NAMES), *ELSEWHERE, str(tmp_path / "second name")]


def outcome(look: Callable[[str], object], path: str) -> object:
    try:
        return look(path)
    except (OSError, ValueError) as error:
        return getattr(error, "errno", None), type(error)


def test_statuses_and_identities_are_told_alike_with_and_without_the_compiled_module(
    paths: list[str],
) -> None:
    compiled = pytest.importorskip("paddock.sandbox.host._linkless", reason="not compiled: no headers")
    for path in [*paths, "a\0b"]:
        assert outcome(compiled.status, path) == outcome(linkless._status_at, path)
        assert outcome(compiled.identity, path) == outcome(linkless._identity_at, path)


def test_what_is_behind_no_link_is_told_alike_with_and_without_the_compiled_module(paths: list[str]) -> None:
    compiled = pytest.importorskip("paddock.sandbox.host._linkless", reason="not compiled: no headers")
    for path in paths:
        if os.path.normpath(path) == path and path.startswith("/") and path != "//":
            known = outcome(linkless._identity_without_links, path)
            assert outcome(compiled.identity_without_links, path) == known


def test_real_paths_are_those_of_the_standard_library(paths: list[str]) -> None:
    for path in paths:
        assert linkless.real_path(path) == os.path.realpath(path)
        strict = outcome(lambda name: os.path.realpath(name, strict=True), path)
        assert outcome(linkless.real_path_there, path) == strict


def test_a_real_path_is_told_without_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("paddock.sandbox.host._linkless", reason="not compiled: no headers")
    path = os.path.realpath(tmp_path)
    monkeypatch.setattr("os.path.realpath", None)
    assert linkless.real_path(f"{path}/missing/deeper") == f"{path}/missing/deeper"
    assert linkless.real_path_there(path) == path

"""Whoever lists the files, the same is denied: ripgrep, our own walk and a plain model of both agree."""

from __future__ import annotations

import fnmatch
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.sandbox.host import tree_search
from paddock.sandbox.host.glob_scan import Scanner
from paddock.sandbox.profile.access import Grants
from paddock.sandbox.profile.glob import Pattern

ORDINARY = 61234
"""For root can read what nobody may."""

NAMES = ["a", "b", ".env", "a.env", "é.env", os.fsdecode(b"\xff.env"), "a b#", "!{a}", "[\n\\"]
PARTS = ["**", "*", "*.env", "?.env", "[ab]", "[!a]*", "a", "a b#", "!{a}", "[?\\"]
LISTED = ["*.env", "?.env", "[!x].env", "a", "!{a}"]
"""Of patterns that end so ripgrep can list the matches; of the others it would list everything."""
KINDS = ["directory", "directory", "file", "file", "file", "hard link", "link", "dangling", "pipe"]

Item = tuple[int, str, str, int]
"""In which of the directories before it, its kind, its name, and which of the entries before it is meant."""


def _items(kinds: list[str]) -> st.SearchStrategy[list[Item]]:
    item = st.tuples(st.integers(0, 30), st.sampled_from(kinds), st.sampled_from(NAMES), st.integers(0, 30))
    return st.lists(item, max_size=25)


# A directory that can't be read makes ripgrep's answer worthless, so most trees have none.
trees = st.sampled_from([KINDS, KINDS, [*KINDS, "unreadable"]]).flatmap(_items)
patterns = st.one_of(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("/".join),
    st.sampled_from(LISTED).map(lambda last: f"**/{last}"),
    st.tuples(st.sampled_from(PARTS), st.sampled_from(LISTED)).map("/".join),
)


@contextmanager
def _as_ordinary_user() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(ORDINARY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def _tree(items: list[Item]) -> Iterator[str]:
    # Below pytest's own directories no other user gets.
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        top = os.path.realpath(directory)
        os.chmod(top, 0o777)
        with _as_ordinary_user():
            directories, unreadable = [top], []
            entries: list[str] = []
            for where, kind, name, other in items:
                path = f"{directories[where % len(directories)]}/{name}"
                if os.path.lexists(path):
                    continue
                _make(kind, path, entries[other % len(entries)] if entries else None)
                entries.append(path)
                if kind in ("directory", "unreadable"):
                    directories.append(path)
                if kind == "unreadable":
                    unreadable.append(path)
            for path in reversed(unreadable):
                os.chmod(path, 0)
            try:
                yield top
            finally:
                for path in unreadable:
                    os.chmod(path, 0o700)


def _make(kind: str, path: str, other: str | None) -> None:
    if kind in ("directory", "unreadable"):
        os.mkdir(path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link" and other is not None:
        os.symlink(other, path)
    elif kind == "dangling":
        os.symlink("nowhere", path)
    elif kind == "hard link" and other is not None and os.path.isfile(other):
        os.link(other, path, follow_symlinks=False)
    else:
        Path(path).touch()


def _is_named(names: list[str], parts: list[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        if len(parts) == 1:
            return bool(names)
        return any(_is_named(names[skipped:], parts[1:]) for skipped in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and _is_named(names[1:], parts[1:])


def _model(top: str, rests: list[str], max_depth: int | None) -> set[str]:
    """What must be denied, as plainly as it can be said."""
    hits = set()
    patterns = [rest.split("/") for rest in rests]
    deepest = math.inf if any("**" in parts for parts in patterns) else max(map(len, patterns))
    reach = min(deepest, max_depth or math.inf)
    for path in _below(top, set()):
        names = os.path.relpath(path, top).split("/")
        is_named = any(_is_named(names, parts) for parts in patterns)
        # Of a directory that can't be searched nobody knows what is in it.
        if (len(names) <= reach and is_named) or (len(names) < reach and _is_closed(path)):
            hits.add(path)
    # What is below a directory that is denied needs no denial of its own.
    hits = {path for path in hits if not any(path.startswith(f"{hit}/") for hit in hits)}
    denied = {target for target in map(os.path.realpath, hits) if os.path.lexists(target)}
    places = {place for path in denied for place in (path, *_below(path, set())) if _is_file(place)}
    files = {_identity(place) for place in places if os.lstat(place).st_nlink > 1}
    others = {
        path
        for path in _below(top, denied)
        if (_is_closed(path) and files) or (_is_file(path) and _identity(path) in files)
    }
    return denied | others


def _below(top: str, closed: set[str]) -> Iterator[str]:
    if not _is_directory(top) or top in closed or _is_closed(top):
        return
    for name in os.listdir(top):
        yield f"{top}/{name}"
        yield from _below(f"{top}/{name}", closed)


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_closed(path: str) -> bool:
    return _is_directory(path) and not os.access(path, os.R_OK | os.X_OK, effective_ids=True)


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


@pytest.mark.parametrize("search_path", ["", os.environ["PATH"]], ids=["alone", "ripgrep"])
@settings(max_examples=200)
@given(trees, st.lists(patterns, min_size=1, max_size=2), st.none() | st.integers(1, 4))
def test_what_is_denied_is_what_the_model_says(
    search_path: str, items: list[Item], rests: list[str], max_depth: int | None
) -> None:
    if search_path and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    with _tree(items) as top, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_search, "LARGE_TREE", 1)
        grants = Grants((), tuple(Pattern(top, rest) for rest in rests))
        assert set(Scanner(search_path=search_path).matches(grants, [top], max_depth)) == _model(
            top, rests, max_depth
        )

"""Where paths lead: as the kernel would say, but for what differs inside a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.denial.attempt import Content, Resolution
from paddock.sandbox.denial.resolution import resolve


@pytest.fixture(scope="module", name="tree")
def tree_with_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # So deep that no path of the tests leaves it: others may have made anything anywhere else.
    tree = tmp_path_factory.mktemp("tree").resolve() / "d/d/d/d/d/d"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/f").write_text("")
    for name, target in {
        "to-b": "a/b",
        "to-f": "a/f",
        "a/up": "..",
        "absolute": str(tree / "a"),
        "dangling": "a/missing",
        "nowhere": "missing/missing",
        "self": "self",
        "output": "/dev/stdout",
        "process": "/proc/self/fd/1",
    }.items():
        (tree / name).symlink_to(target)
    os.mkfifo(tree / "pipe")
    return tree


names = st.sampled_from(
    ["a", "b", "f", "up", "..", ".", "", "to-b", "to-f", "absolute", "dangling", "missing"]
)


@given(st.lists(names, max_size=6))
def test_paths_lead_where_the_system_says(tree: Path, parts: list[str]) -> None:
    path = "/".join([str(tree), *parts])
    place = resolve(path)
    try:
        real = os.path.realpath(path, strict=True)
    except OSError:
        assert place.content in (Content.NOTHING, Content.NOWHERE)
    else:
        # A slash behind a file is an error of the kernel's that decides nothing here.
        assert place == Resolution(real, Content.DIRECTORY if os.path.isdir(real) else Content.FILE)


def test_a_link_at_the_end_is_followed_only_if_the_call_does_so(tree: Path) -> None:
    assert resolve(f"{tree}/to-f") == Resolution(f"{tree}/a/f", Content.FILE)
    assert resolve(f"{tree}/to-f", follows=False) == Resolution(f"{tree}/to-f", Content.FILE)
    assert resolve(f"{tree}/to-b/../f", follows=False) == Resolution(f"{tree}/a/f", Content.FILE)


def test_what_is_missing_is_told_from_what_has_no_place(tree: Path) -> None:
    assert resolve(f"{tree}/dangling") == Resolution(f"{tree}/a/missing", Content.NOTHING)
    assert resolve(f"{tree}/nowhere").content is Content.NOWHERE
    assert resolve(f"{tree}/a/f/x").content is Content.NOWHERE
    assert resolve(f"{tree}/self").content is Content.NOWHERE
    assert resolve(f"{tree}/{'x' * 300}").content is Content.NOWHERE


def test_pipes_are_neither_files_nor_directories(tree: Path) -> None:
    assert resolve(f"{tree}/pipe").content is Content.SPECIAL


def test_links_to_the_streams_of_a_process_are_not_followed_to_our_own(tree: Path) -> None:
    assert resolve(f"{tree}/output").real == "/dev/stdout"
    assert resolve(f"{tree}/process").real == "/proc/self/fd/1"
    assert resolve("/dev/../proc/self/cwd/x").real == "/proc/self/cwd/x"

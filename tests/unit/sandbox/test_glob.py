from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ProfileRefused
from paddock.sandbox.glob import Pattern, parse_pattern, regular_expression
from paddock.sandbox.glob_scan import MATCH_LIMIT, Scanner


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.env", ["a.env", ".env"], ["d/a.env", "a.envs"]),
        ("**/*.env", ["a.env", "d/a.env", "d/e/.env"], ["a.env/x"]),
        ("d/**", ["d/a", "d/e/f"], ["d", "x/d/a"]),
        ("d/**/f", ["d/f", "d/e/f"], ["f", "d/e/g"]),
        ("?.key", ["a.key"], ["ab.key", "/.key"]),
        ("[ab].key", ["a.key"], ["c.key"]),
        ("[!ab].key", ["c.key"], ["a.key"]),
        ("[a-c]x", ["bx"], ["dx", "-x"]),
        ("[]]x", ["]x"], ["x"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a{b,c}\\d", ["a{b,c}\\d"], ["ab"]),
    ],
)
def test_pattern_names_these_paths_and_no_others(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    expression = regular_expression(pattern)
    assert [path for path in matching if expression.fullmatch(path)] == matching
    assert [path for path in others if expression.fullmatch(path)] == []


@given(st.text("ab*?[]!-.", min_size=1, max_size=6), st.text("ab-.[]!", min_size=1, max_size=4))
def test_one_name_matches_as_the_standard_library_says(pattern: str, name: str) -> None:
    # Its translation of a range that runs backwards differs between versions.
    if "**" in pattern or pattern in (".", "..") or "-" in pattern or "[" in pattern:
        return
    assert bool(regular_expression(pattern).fullmatch(name)) == fnmatch.fnmatchcase(name, pattern)


@given(st.text(min_size=1, max_size=12).filter(lambda text: "\0" not in text))
def test_every_text_is_a_pattern(pattern: str) -> None:
    regular_expression(pattern)


def test_pattern_is_searched_from_its_last_plain_directory() -> None:
    assert parse_pattern("/a/b/**/*.env") == Pattern("/a/b", "**/*.env")
    assert parse_pattern("/a/b/x?y/z") == Pattern("/a/b", "x?y/z")
    assert parse_pattern("/a/b/plain") == Pattern("/a/b", "plain")


@pytest.mark.parametrize("pattern", ["/**/*.env", "/*", "/x?/y"])
def test_pattern_that_searches_everything_is_refused(pattern: str) -> None:
    with pytest.raises(ProfileRefused, match="whole file system"):
        parse_pattern(pattern)


def _make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")


def _matches(scanner: Scanner, root: Path, rest: str, depth: int | None = None) -> set[str]:
    found = scanner.matches([Pattern(str(root), rest)], [str(root)], depth)
    return {os.path.relpath(path, root) for path in found}


def _recorded_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are read from now on."""
    read: list[str] = []
    scandir = os.scandir

    def recorded(path: str) -> Any:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", recorded)
    return read


def test_files_directories_link_targets_and_other_names_are_found(tmp_path: Path) -> None:
    _make(tmp_path, ".env", "d/e/deep.env", "conf.env/inside", "target", "plain")
    (tmp_path / "link.env").symlink_to("target")
    (tmp_path / "dangling.env").symlink_to("nowhere")
    os.link(tmp_path / ".env", tmp_path / "d" / "other-name")
    found = _matches(Scanner(), tmp_path, "**/*.env")
    assert found == {".env", "d/e/deep.env", "conf.env", "target", "d/other-name"}


def test_other_names_of_a_file_that_is_denied_by_its_path_are_found(tmp_path: Path) -> None:
    _make(tmp_path, "secret", "plain")
    (tmp_path / "d").mkdir()
    os.link(tmp_path / "secret", tmp_path / "d" / "other-name")
    denied = [str(tmp_path / name) for name in ("secret", "plain", "missing")]
    found = Scanner().matches([], [str(tmp_path)], denied=denied)
    assert found == (str(tmp_path / "d" / "other-name"), str(tmp_path / "secret"))


def test_search_ends_at_its_depth(tmp_path: Path) -> None:
    _make(tmp_path, "a.env", "d/b.env", "d/e/c.env")
    assert _matches(Scanner(), tmp_path, "**/*.env", 2) == {"a.env", "d/b.env"}


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    _make(tmp_path, "outside/a.env", "tree/b.env")
    (tmp_path / "tree" / "way").symlink_to(tmp_path / "outside")
    found = Scanner().matches([Pattern(str(tmp_path / "tree"), "**/*.env")])
    assert found == (str(tmp_path / "tree" / "b.env"),)


def test_what_is_made_between_two_searches_is_found_by_the_second(tmp_path: Path) -> None:
    scanner = Scanner()
    _make(tmp_path, "d/a.env")
    assert _matches(scanner, tmp_path, "**/*.env") == {"d/a.env"}
    _make(tmp_path, "d/b.env", "e/c.env")
    (tmp_path / "d/a.env").unlink()
    assert _matches(scanner, tmp_path, "**/*.env") == {"d/b.env", "e/c.env"}


def test_directory_that_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = Scanner()
    _make(tmp_path, "d/a.env")
    monkeypatch.setattr("paddock.sandbox.glob_scan.SETTLED_NS", -1)
    assert _matches(scanner, tmp_path, "**/*.env") == {"d/a.env"}
    read = _recorded_reads(monkeypatch)
    assert _matches(scanner, tmp_path, "**/*.env") == {"d/a.env"}
    assert read == []
    # A modification time can be set back; the change time can't.
    before = os.stat(tmp_path / "d")
    _make(tmp_path, "d/b.env")
    os.utime(tmp_path / "d", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert _matches(scanner, tmp_path, "**/*.env") == {"d/a.env", "d/b.env"}
    assert read == [str(tmp_path / "d")]


def test_next_process_reads_only_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.sandbox.glob_scan.SETTLED_NS", -1)
    tree, memory = tmp_path / "tree", tmp_path / "memory"
    _make(tree, "d/a.env", "e/b")
    assert _matches(Scanner(memory), tree, "**/*.env") == {"d/a.env"}
    _make(tree, "e/c.env")
    read = _recorded_reads(monkeypatch)
    assert _matches(Scanner(memory), tree, "**/*.env") == {"d/a.env", "e/c.env"}
    assert read == [str(tree / "e")]


def test_memory_that_can_not_be_read_is_as_none(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    memory.write_bytes(b"nonsense")
    _make(tmp_path, "a.env")
    assert _matches(Scanner(memory), tmp_path, "*.env") == {"a.env"}


def test_more_matches_than_can_be_denied_are_refused(tmp_path: Path) -> None:
    for number in range(MATCH_LIMIT + 1):
        (tmp_path / f"{number}.env").touch()
    with pytest.raises(ProfileRefused, match=f"match {MATCH_LIMIT + 1} paths"):
        Scanner().matches([Pattern(str(tmp_path), "*.env")])

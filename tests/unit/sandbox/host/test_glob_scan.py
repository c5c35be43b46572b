"""What a profile's denials come to in real trees, with ripgrep and without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock import own_program
from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host import glob_scan, hard_link, ripgrep, tree_search
from paddock.sandbox.host.glob_scan import MATCH_LIMIT, Scanner
from paddock.sandbox.host.tree_memory import TreeMemory
from paddock.sandbox.profile.access import Grants, Rule
from paddock.sandbox.profile.glob import Pattern


def _make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")


def _matches(scanner: Scanner, root: Path, rest: str, depth: int | None = None) -> set[str]:
    return _found(scanner, root, Grants((), (Pattern(str(root), rest),)), depth)


def _found(scanner: Scanner, root: Path, grants: Grants, depth: int | None = None) -> set[str]:
    return {os.path.relpath(path, root) for path in scanner.matches(grants, [str(root)], depth)}


def _rules(root: Path, **access: str) -> tuple[Rule, ...]:
    return tuple(
        Rule(str(root / name.replace("_", "/")), Access(word), name) for name, word in access.items()
    )


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
    rules = _rules(tmp_path, secret="deny", plain="deny", missing="deny")
    assert _found(Scanner(), tmp_path, Grants(rules, ())) == {"d/other-name", "secret"}


def test_other_names_of_files_in_a_denied_directory_are_found(tmp_path: Path) -> None:
    _make(tmp_path, "secret/deep/key", "conf.env/token", "plain")
    os.link(tmp_path / "secret/deep/key", tmp_path / "k")
    os.link(tmp_path / "conf.env/token", tmp_path / "t")
    grants = Grants(_rules(tmp_path, secret="deny"), (Pattern(str(tmp_path), "**/*.env"),))
    assert _found(Scanner(), tmp_path, grants) == {"conf.env", "k", "t"}


def test_what_is_open_below_a_denied_directory_keeps_its_other_names(tmp_path: Path) -> None:
    _make(tmp_path, "secret/open/shared", "secret/key")
    os.link(tmp_path / "secret/open/shared", tmp_path / "s")
    grants = Grants(_rules(tmp_path, secret="deny", secret_open="read"), ())
    assert _found(Scanner(), tmp_path, grants) == set()


def test_no_more_files_of_a_denied_directory_are_looked_at_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path, "secret/near", "secret/a/b/c/d/far")
    for name in ("near", "a/b/c/d/far"):
        os.link(tmp_path / "secret" / name, tmp_path / os.path.basename(name))
    grants = Grants(_rules(tmp_path, secret="deny"), ())
    assert _found(Scanner(), tmp_path, grants) == {"near", "far"}
    monkeypatch.setattr(hard_link, "LOOKED_AT_LIMIT", 3)
    assert _found(Scanner(), tmp_path, grants) == {"near"}


def test_pattern_counts_also_in_what_is_open_below_a_match(tmp_path: Path) -> None:
    _make(tmp_path, "private/a.key", "private/open/b.key", "private/open/c")
    patterns = tuple(Pattern(str(tmp_path), rest) for rest in ("private", "**/*.key"))
    assert _found(Scanner(), tmp_path, Grants((), patterns)) == {"private"}
    opened = Grants(_rules(tmp_path, private_open="read"), patterns)
    assert _found(Scanner(), tmp_path, opened) == {"private", "private/a.key", "private/open/b.key"}


@pytest.mark.parametrize("target", ["/", "..", "."])
def test_link_that_would_deny_everything_is_refused_by_its_name(tmp_path: Path, target: str) -> None:
    (tmp_path / "x.env").symlink_to(target)
    with pytest.raises(ProfileRefused, match=r"x\.env.*remove the link"):
        _matches(Scanner(), tmp_path, "*.env")


def test_processes_of_the_host_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command sees others, and the kernel lets nobody but root look at all of them."""
    _make(tmp_path, "a.env", "proc/1/b.env")
    monkeypatch.setattr(glob_scan, "PROC", str(tmp_path / "proc"))
    assert _matches(Scanner(), tmp_path, "**/*.env") == {"a.env"}


def test_search_ends_at_its_depth(tmp_path: Path) -> None:
    _make(tmp_path, "a.env", "d/b.env", "d/e/c.env")
    assert _matches(Scanner(), tmp_path, "**/*.env", 2) == {"a.env", "d/b.env"}


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    _make(tmp_path, "outside/a.env", "tree/b.env")
    (tmp_path / "tree" / "way").symlink_to(tmp_path / "outside")
    assert _matches(Scanner(), tmp_path / "tree", "**/*.env") == {"b.env"}


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
    monkeypatch.setattr(tree_search, "SETTLED_NS", -1)
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
    monkeypatch.setattr(tree_search, "SETTLED_NS", -1)
    tree, memory = tmp_path / "tree", tmp_path / "memory"
    _make(tree, "d/a.env", "e/b")
    assert _matches(Scanner(memory), tree, "**/*.env") == {"d/a.env"}
    _make(tree, "e/c.env")
    read = _recorded_reads(monkeypatch)
    assert _matches(Scanner(memory), tree, "**/*.env") == {"d/a.env", "e/c.env"}
    assert read == [str(tree / "e")]


def test_directory_that_took_the_place_of_another_is_read_though_its_change_time_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_search, "SETTLED_NS", -1)
    tree, memory = tmp_path / "tree", tmp_path / "memory"
    _make(tree, "a/d/plain", "b/d/x.env")
    assert _matches(Scanner(memory), tree, "**/*.env") == {"b/d/x.env"}
    (tree / "a").rename(tree / "c")
    (tree / "b").rename(tree / "a")
    # Clocks of file systems tick in steps: directories that were made together often have the same time.
    held = TreeMemory(memory)
    ((key, known),) = held._loaded().items()
    directory = replace(known["a/d"], changed_ns=(tree / "a/d").stat().st_ctime_ns)
    held.remember(key, {**known, "a/d": directory})
    held.save()
    assert _matches(Scanner(memory), tree, "**/*.env") == {"a/d/x.env"}


def test_memory_that_can_not_be_read_is_as_none(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    memory.write_bytes(b"nonsense")
    _make(tmp_path, "a.env")
    assert _matches(Scanner(memory), tmp_path, "*.env") == {"a.env"}


def test_more_matches_than_can_be_denied_are_refused(tmp_path: Path) -> None:
    for number in range(MATCH_LIMIT + 1):
        (tmp_path / f"{number}.env").touch()
    with pytest.raises(ProfileRefused, match=f"match {MATCH_LIMIT + 1} paths"):
        _matches(Scanner(), tmp_path, "*.env")


def test_tree_is_searched_no_deeper_than_its_patterns_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path, "a.env", "d/b.env", "d/e/c.env")
    read = _recorded_reads(monkeypatch)
    assert _matches(Scanner(), tmp_path, "*/*.env") == {"d/b.env"}
    assert read == [str(tmp_path), str(tmp_path / "d")]


# --- ripgrep -----------------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tree counts as one for which ripgrep is started, and those of the tests as the system's."""
    directories = (f"{tmp_path}/{name}" for name in ("bin", "tree/bin", "writable/bin", "cwd/bin"))
    monkeypatch.setattr(own_program, "SYSTEM_PATH", ":".join(directories))
    monkeypatch.setattr(tree_search, "LARGE_TREE", 1)


def _program(directory: Path, script: str) -> str:
    """A ripgrep that does this, as the PATH where it is."""
    directory.mkdir()
    (directory / "rg").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "rg").chmod(0o755)
    return str(directory)


@pytest.mark.usefixtures("large")
def test_files_of_a_large_tree_are_those_that_ripgrep_lists(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    _make(tree, "a.env", "d/b.env", "conf.env/c.env", "d/plain")
    lists = _program(tmp_path / "bin", r"printf './d/b.env\0./conf.env/c.env\0./d/plain\0'")
    assert _matches(Scanner(search_path=lists), tree, "**/*.env") == {"d/b.env", "conf.env"}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("script", ["printf './a.env\\0'; exit 2", "kill -9 $$", "exec no-such-program"])
def test_answer_of_a_ripgrep_that_failed_is_not_used(tmp_path: Path, script: str) -> None:
    tree = tmp_path / "tree"
    _make(tree, "a.env", "d/b.env", "conf.env/c.env")
    fails = _program(tmp_path / "bin", script)
    assert _matches(Scanner(search_path=fails), tree, "**/*.env") == {"a.env", "d/b.env", "conf.env"}


@pytest.mark.usefixtures("large")
def test_ripgrep_that_lists_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "OUTPUT_LIMIT_BYTES", 1000)
    tree = tmp_path / "tree"
    _make(tree, "a.env")
    endless = _program(tmp_path / "bin", "while :; do printf './x.env\\0'; done")
    assert _matches(Scanner(search_path=endless), tree, "**/*.env") == {"a.env"}


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("place", ["tree/bin", "writable/bin", "cwd/bin"])
def test_ripgrep_where_commands_can_write_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    tree = tmp_path / "tree"
    _make(tmp_path, "tree/a.env", "writable/x", "cwd/x")
    monkeypatch.chdir(tmp_path / "cwd")
    planted = _program(tmp_path / place, f"touch {tmp_path}/ran")
    grants = Grants(_rules(tmp_path, writable="write"), (Pattern(str(tree), "**/*.env"),))
    assert _found(Scanner(search_path=f"{planted}:bin"), tree, grants) == {"a.env"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.usefixtures("large")
def test_ripgrep_that_is_not_the_systems_is_never_run(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    _make(tree, "a.env")
    planted = _program(tmp_path / "elsewhere", f"touch {tmp_path}/ran")
    assert _matches(Scanner(search_path=planted), tree, "**/*.env") == {"a.env"}
    assert not (tmp_path / "ran").exists()


def test_small_tree_starts_no_program(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    _make(tree, "a.env", "d/b.env")
    recording = _program(tmp_path / "bin", f"touch {tmp_path}/ran")
    assert _matches(Scanner(search_path=recording), tree, "**/*.env") == {"a.env", "d/b.env"}
    assert not (tmp_path / "ran").exists()


def _own_names(root: Path, *own: str, **access: str) -> set[str]:
    """The names of `tool` that are found under grants, except in `own` and a temporary directory."""
    status = (root / "tool").stat()
    grants = Grants(_rules(root, **access), ())
    found = Scanner().names_in_grants(
        frozenset({(status.st_dev, status.st_ino)}),
        grants,
        [str(root / name) for name in own],
        [str(root / "t")],
    )
    return {os.path.relpath(path, root) for path in found}


def test_other_names_of_a_file_are_found_where_the_command_may_write(tmp_path: Path) -> None:
    _make(tmp_path, "tool", "w/plain", "w/kept/x", "w/secret/x", "r/x", "t/x")
    for name in ("w/deep/tool", "w/kept/tool", "w/secret/tool", "r/tool", "t/tool"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.link(tmp_path / "tool", tmp_path / name)
    assert _own_names(tmp_path, "w/kept", w="write", w_secret="deny", r="read", t="write") == {"w/deep/tool"}
    # A grant may name just the file.
    assert _own_names(tmp_path, w_deep_tool="write", w_plain="write") == {"w/deep/tool"}
    # Where everything may be written, there is nothing to protect.
    status = (tmp_path / "tool").stat()
    everything = Grants((Rule("/", Access.WRITE, "root"),), ())
    assert Scanner().names_in_grants(frozenset({(status.st_dev, status.st_ino)}), everything, (), ()) == ()

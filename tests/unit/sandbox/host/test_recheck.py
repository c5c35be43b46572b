"""What is not as it was, found by many looks at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.sandbox.host import recheck
from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.linkless import identity_at, identity_without_links
from paddock.sandbox.host.recheck import Recheck


@pytest.fixture(autouse=True, params=["compiled", "in Python"])
def choose_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in Python":
        monkeypatch.setattr(recheck, "_differing", recheck._differing_in_python)
    else:
        pytest.importorskip("paddock.sandbox.host._linkless", reason="not compiled: no Python headers")


@pytest.fixture(name="tree")
def make_tree(tmp_path: Path) -> Path:
    (tmp_path / "directory").mkdir(mode=0o755)
    (tmp_path / "directory" / "file").write_text("hello")
    (tmp_path / "link").symlink_to("directory")
    return tmp_path


def expected(tree: Path) -> Recheck:
    found = Recheck()
    for name in ("directory", "directory/file", "link"):
        status = os.lstat(tree / name)
        found.expect_status(str(tree / name), status.st_mode, status.st_uid)
        found.expect_identity(str(tree / name), identity_at(str(tree / name)))
    inner = str(tree / "directory" / "file")
    found.expect_identity(inner, identity_without_links(inner), without_links=True)
    found.expect_failure(str(tree / "missing"), errno.ENOENT)
    found.expect_failure(f"{inner}/below", errno.ENOTDIR)
    found.expect_identity(str(tree / "missing"), None)
    return found


def test_nothing_differs_while_nothing_changes(tree: Path) -> None:
    found = expected(tree)
    assert list(found.differing()) == []
    (tree / "directory" / "another").write_text("")
    (tree / "directory" / "file").write_text("longer than before")
    assert list(found.differing()) == []
    assert list(Recheck().differing()) == []


def replace_with_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


CHANGES: dict[str, tuple[Callable[[Path], None], list[int]]] = {
    "mode": (lambda tree: (tree / "directory").chmod(0o700), [0]),
    "owner": (lambda tree: os.chown(tree / "directory", 12345, -1), [0]),
    "removal": (lambda tree: (tree / "directory" / "file").unlink(), [2, 3, 6, 8]),
    "a link on the way": (lambda tree: replace_with_link(tree / "directory"), [0, 1, 6]),
    "creation": (lambda tree: (tree / "missing").mkdir(), [7, 9]),
    "a link where nothing was": (lambda tree: (tree / "missing").symlink_to("nowhere"), [7, 9]),
    "another file": (lambda tree: os.replace(tree / "directory" / "file", tree / "link"), [2, 3, 4, 5, 6, 8]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_differs(tree: Path, change: str) -> None:
    if change == "owner" and os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    found = expected(tree)
    act, differing = CHANGES[change]
    act(tree)
    assert list(found.differing()) == differing


def test_path_with_a_nul_is_refused() -> None:
    found = Recheck()
    found.expect_failure("a\0b", errno.ENOENT)
    with pytest.raises(ValueError, match="null byte"):
        found.differing()


def replace_with_file(path: Path) -> None:
    path.rmdir()
    path.write_text("")


WAYS_TO_CHANGE_A_FACT: dict[str, Callable[[Path], None]] = {
    "mode": lambda path: path.chmod(0o700),
    "mode of a placeholder": lambda path: path.chmod(0o1700),
    "link": replace_with_link,
    "file": replace_with_file,
    "nothing": lambda path: path.rmdir(),
}


@pytest.mark.parametrize("change", WAYS_TO_CHANGE_A_FACT)
def test_record_of_lookups_holds_until_a_fact_changes(tmp_path: Path, change: str) -> None:
    path = tmp_path / "directory"
    path.mkdir(mode=0o755)
    facts = FileFacts()
    facts.at(str(path / "missing"))
    assert facts.lookups.still_holds()
    (path / "other").mkdir()
    (path / "other").rmdir()
    assert facts.lookups.still_holds()
    WAYS_TO_CHANGE_A_FACT[change](path)
    assert not facts.lookups.still_holds()


def test_record_of_lookups_asks_again_where_more_than_the_mode_counts(tmp_path: Path) -> None:
    path = tmp_path / "place"
    path.mkdir(mode=0o700)
    path.chmod(0o1700)
    (tmp_path / "link").symlink_to("place")
    facts = FileFacts()
    facts.at(str(path))
    facts.at(str(tmp_path / "link"))
    assert facts.lookups.still_holds()
    (path / "something").write_text("")
    assert not facts.lookups.still_holds()
    (path / "something").unlink()
    assert facts.lookups.still_holds()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("elsewhere")
    assert not facts.lookups.still_holds()


def test_record_of_lookups_notices_a_question_that_was_asked_later(tmp_path: Path) -> None:
    facts = FileFacts()
    facts.at(str(tmp_path))
    assert facts.lookups.still_holds()
    facts.at(str(tmp_path / "later"))
    assert facts.lookups.still_holds()
    (tmp_path / "later").mkdir()
    assert not facts.lookups.still_holds()

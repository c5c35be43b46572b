from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.denial.writable_path import WritablePaths
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.access import Rule


@pytest.fixture(name="places")
def places_of_a_workspace(tmp_path: Path) -> WritablePaths:
    """What a command may write that has `w` as its workspace, and no more."""
    for name in ("w", "tools"):
        (tmp_path / name).mkdir()
    (tmp_path / "tools/git").write_text("git")
    rules = (Rule("/", Access.READ, "root"), Rule(str(tmp_path / "w"), Access.WRITE, "workspace"))
    return WritablePaths(Plan((), (), rules, NetworkMode.RESTRICTED, Limits(), "/", has_proc=True))


def test_what_is_granted_can_be_written_and_all_else_not(places: WritablePaths, tmp_path: Path) -> None:
    is_writable = places.now()
    assert is_writable(f"{tmp_path}/w")
    assert is_writable(f"{tmp_path}/w/below/it")
    assert not is_writable(f"{tmp_path}/tools/git")
    assert not is_writable(f"{tmp_path}/tools")


def test_each_decision_sees_the_links_that_are_there_then(places: WritablePaths, tmp_path: Path) -> None:
    path = f"{tmp_path}/tools/bin/git"
    assert not places.now()(path)
    os.symlink(tmp_path / "w", tmp_path / "tools/bin")
    assert places.now()(path)
    os.unlink(tmp_path / "tools/bin")
    assert not places.now()(path)


def test_a_second_name_where_the_command_can_write_counts(places: WritablePaths, tmp_path: Path) -> None:
    path = f"{tmp_path}/tools/git"
    assert not places.now()(path)
    os.link(path, tmp_path / "w/innocent")
    assert places.now()(path)
    os.unlink(tmp_path / "w/innocent")
    assert not places.now()(path)


def test_what_can_not_be_looked_at_counts_as_writable(places: WritablePaths, tmp_path: Path) -> None:
    assert places.now()(str(tmp_path) + "/x" * 300)


@pytest.mark.parametrize(
    "path", ["/proc/self/cwd", "/proc/self/cwd/bin", "/proc/thread-self/root", "/dev/fd/99"]
)
def test_what_each_process_sees_differently_counts_as_writable(
    places: WritablePaths, tmp_path: Path, path: str
) -> None:
    assert places.now()(path)
    os.symlink(path, tmp_path / "tools/link")
    assert places.now()(f"{tmp_path}/tools/link")
    assert not places.now()("/dev/null")


def test_within_one_decision_nothing_changes(places: WritablePaths, tmp_path: Path) -> None:
    path = f"{tmp_path}/tools/git"
    is_writable = places.now()
    assert not is_writable(path)
    os.link(path, tmp_path / "w/innocent")
    assert not is_writable(path)
    assert places.now()(path)


def test_what_others_may_write_counts_whatever_the_plan_says_of_it(tmp_path: Path) -> None:
    for name in ("w/inner", "tools"):
        (tmp_path / name).mkdir(parents=True)
    os.symlink(tmp_path / "w", tmp_path / "link")
    (tmp_path / "w/git").write_text("git")
    rules = (Rule("/", Access.READ, "root"), Rule(str(tmp_path / "w/inner"), Access.READ, "inner"))
    plan = Plan((), (), rules, NetworkMode.RESTRICTED, Limits(), "/", has_proc=True)
    is_writable = WritablePaths(plan, [f"{tmp_path}/link/"]).now()
    assert is_writable(f"{tmp_path}/w/git")
    assert is_writable(f"{tmp_path}/w/inner/git")
    assert is_writable(f"{tmp_path}/link/git")
    assert not is_writable(f"{tmp_path}/tools/git")
    os.link(tmp_path / "w/git", tmp_path / "tools/git")
    assert WritablePaths(plan, [f"{tmp_path}/w"]).now()(f"{tmp_path}/tools/git")
    assert not WritablePaths(plan).now()(f"{tmp_path}/w/git")

"""Placeholders are made and removed in the directory that was planned, wherever its path leads meanwhile.

Another command, whose project is further up, may exchange every directory on the way for a link or for
another directory. What is outside of its project must neither get an entry by that nor lose one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.inotify import CHANGES, Inotify
from paddock.sandbox.enforce.janitor import Janitor, PlaceholderTaken, locate, lock
from paddock.sandbox.host.placeholder import LocatedPlaceholder, Placeholder, PlaceholderKind
from tests.sandbox.helper_process import kill_janitors, wait_until
from tests.sandbox.identity import each_user
from tests.sandbox.placeholder_rounds import PLACEHOLDERS
from tests.sandbox.storm import janitors
from tests.unit.fs.swapper import swapping

ROUNDS = 3000
"""Without the check some ten are enough to have something made outside."""

SECRET = "not the command's"


class Scene:
    """A project `work/sub/project`, and of the same shape something outside that no command may write."""

    def __init__(self, top: Path) -> None:
        self.work, self.outside = top / "work", top / "outside"
        self.sub, self.link = self.work / "sub", self.work / "link"
        self.project, self.victim = self.sub / "project", self.outside / "project"
        self.project.mkdir(parents=True)
        self.victim.mkdir(parents=True)
        self.link.symlink_to(self.outside)

    def lead_outside(self) -> None:
        """Exchange the directory above the project for a link."""
        self.sub.rename(self.work / "moved")
        self.link.rename(self.sub)

    def lead_to_another(self) -> None:
        """Exchange the directory above the project for another that has a project, too."""
        self.sub.rename(self.work / "moved")
        self.outside.rename(self.sub)
        self.victim = self.sub / "project"

    @property
    def moved_project(self) -> Path:
        return self.work / "moved" / "project"


astray = pytest.mark.parametrize(
    "lead_astray", [Scene.lead_outside, Scene.lead_to_another], ids=["link", "directory"]
)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def _placeholders(project: Path) -> list[LocatedPlaceholder]:
    return locate([Placeholder(str(project / name), kind) for name, kind in PLACEHOLDERS.items()])


def _make_like_placeholders(victim: Path) -> None:
    """What a janitor would take for placeholders, if it came along."""
    for name, kind in PLACEHOLDERS.items():
        if kind is PlaceholderKind.FILE:
            (victim / name).touch()
            (victim / name).chmod(0o1400)
        else:
            (victim / name).mkdir()
            (victim / name).chmod(0o1700)


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@astray
def test_nothing_is_made_where_the_path_has_come_to_lead(
    lead_astray: Callable[[Scene], None], scene: Scene, janitor: Janitor
) -> None:
    placeholders = _placeholders(scene.project)
    lead_astray(scene)
    with pytest.raises(PlaceholderTaken):
        janitor.hold(placeholders)
    assert _names(scene.victim) == []
    assert _names(scene.moved_project) == []


def test_project_behind_a_link_is_not_located(scene: Scene) -> None:
    scene.lead_outside()
    with pytest.raises(PlaceholderTaken):
        _placeholders(scene.project)


@astray
def test_placeholder_is_removed_where_it_was_made_and_nothing_elsewhere(
    lead_astray: Callable[[Scene], None], scene: Scene, janitor: Janitor
) -> None:
    _make_like_placeholders(scene.victim)
    placeholders = _placeholders(scene.project)
    janitor.hold(placeholders)
    assert _names(scene.project) == sorted(PLACEHOLDERS)
    lead_astray(scene)
    janitor.release(placeholders, was_killed=False)
    assert _names(scene.moved_project) == []
    assert _names(scene.victim) == sorted(PLACEHOLDERS)


@astray
def test_placeholder_is_not_locked_where_the_path_has_come_to_lead(
    lead_astray: Callable[[Scene], None], scene: Scene, janitor: Janitor
) -> None:
    _make_like_placeholders(scene.victim)
    placeholders = _placeholders(scene.project)
    janitor.hold(placeholders)
    for file in lock(placeholders):
        os.close(file)
    lead_astray(scene)
    with pytest.raises(PlaceholderTaken):
        lock(placeholders)


@astray
def test_placeholder_of_the_new_directory_stays_when_that_of_the_old_is_released(
    lead_astray: Callable[[Scene], None], scene: Scene, janitor: Janitor
) -> None:
    old = _placeholders(scene.project)
    janitor.hold(old)
    lead_astray(scene)
    new = _placeholders(scene.victim)
    janitor.hold(new)
    janitor.release(old, was_killed=False)
    assert _names(scene.victim) == sorted(PLACEHOLDERS)
    janitor.release(new, was_killed=False)
    assert _names(scene.victim) == []


@astray
def test_what_a_killed_janitor_left_is_not_cleared_away_elsewhere(
    lead_astray: Callable[[Scene], None], scene: Scene, janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    _make_like_placeholders(scene.victim)
    janitor.hold(_placeholders(scene.project))
    kill_janitors(runtime)
    lead_astray(scene)
    _let_another_sweep(runtime, tmp_path)
    assert _names(scene.victim) == sorted(PLACEHOLDERS)


def test_what_a_killed_janitor_left_is_cleared_away_where_it_is(
    scene: Scene, janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    janitor.hold(_placeholders(scene.project))
    kill_janitors(runtime)
    _let_another_sweep(runtime, tmp_path)
    assert _names(scene.project) == []


def test_journals_of_a_directory_that_others_may_write_are_not_believed(
    scene: Scene, janitor: Janitor, runtime: Path, tmp_path: Path
) -> None:
    janitor.hold(_placeholders(scene.project))
    kill_janitors(runtime)
    (journals,) = runtime.iterdir()
    journals.chmod(0o777)
    _let_another_sweep(runtime, tmp_path)
    assert _names(scene.project) == sorted(PLACEHOLDERS)


def _let_another_sweep(runtime: Path, elsewhere: Path) -> None:
    """Start another janitor, which clears away what was left, and wait for its end."""
    other = Janitor(runtime)
    placeholders = locate([Placeholder(str(elsewhere / "trial"), PlaceholderKind.DIRECTORY)])
    other.hold(placeholders)
    other.release(placeholders, was_killed=False)
    other.close()
    wait_until(lambda: not janitors(runtime))


@each_user
def test_command_further_up_that_swaps_directories_reaches_nothing_outside(user: int, place: Path) -> None:
    top = place / "scene"
    top.mkdir()
    scene = Scene(top)
    (scene.victim / "secret").write_text(SECRET)
    for directory in (top, *top.rglob("*")):
        os.chown(directory, user, user, follow_symlinks=False)
    watch = Inotify()
    try:
        for directory in (scene.outside, scene.victim):
            watch.add(os.fsencode(directory), CHANGES)
        with swapping(scene.sub, scene.link):
            held = _rounds(user, place, scene.project)
        assert watch.read() == []
    finally:
        watch.close()
    assert (scene.victim / "secret").read_text() == SECRET
    assert _names(scene.victim) == ["secret"]
    assert held > 0
    wait_until(lambda: not _names(scene.project))


def _rounds(user: int, directory: Path, project: Path) -> int:
    arguments = [str(user), str(directory), str(project), str(ROUNDS)]
    return int(
        subprocess.check_output([sys.executable, "-m", "tests.sandbox.placeholder_rounds", *arguments])
    )

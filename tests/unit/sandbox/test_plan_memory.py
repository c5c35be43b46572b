"""Plans are remembered, and no change of what they follow from goes unnoticed.

What a start costs is told by counts here, because times differ from run to run.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ProfileRefused
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    ManagedProfile,
    NamedPath,
    ProjectRoots,
    RestrictedFileSystem,
    RootPath,
)
from paddock.sandbox.host.facts import NAMES_LIMIT, FileFacts
from paddock.sandbox.host.placeholder import PLACEHOLDER_MODES, PlaceholderKind
from paddock.sandbox.plan.mount import Bind
from paddock.sandbox.plan.plan import PlanInput, confine
from paddock.sandbox.plan_memory import SCENE_COUNT, VARIANT_COUNT, PlanMemory
from paddock.sandbox.profile.access import Surroundings

PROFILE = ManagedProfile(
    file_system=RestrictedFileSystem(
        entries=(
            AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ),
            AccessEntry(path=NamedPath(value=ProjectRoots()), access=Access.WRITE),
        )
    )
)
LOOKS_BELOW_WORKSPACE = 16
"""Files that are looked at in a workspace with a repository: a start takes longer with each."""


@pytest.fixture(name="workspace")
def make_workspace(tmp_path: Path) -> Path:
    """A working tree of git with nothing else in it."""
    workspace = tmp_path.resolve() / "workspace"
    for name in ("objects", "refs"):
        (workspace / ".git" / name).mkdir(parents=True)
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return workspace


def _input(*roots: Path) -> PlanInput:
    return PlanInput(Surroundings(tuple(map(str, roots))), str(roots[0]))


def _replace(path: Path, text: str) -> None:
    """As git does it: the next content is in another file."""
    other = path.with_name("other")
    other.write_text(text)
    other.rename(path)


def _exchange(path: Path) -> None:
    moved = path.rename(path.with_name("moved"))
    path.symlink_to(moved)


def _make_pointer(workspace: Path) -> None:
    """Let the working tree belong to a repository that is elsewhere in it."""
    (workspace / ".git").rename(workspace / "elsewhere")
    (workspace / ".git").write_text("gitdir: elsewhere\n")


def _hold(path: Path) -> None:
    path.mkdir()
    path.chmod(PLACEHOLDER_MODES[PlaceholderKind.DIRECTORY])


CHANGES: dict[str, Callable[[Path], object]] = {
    "protected name made": lambda root: (root / ".codex").mkdir(),
    "protected name made as a file": lambda root: (root / ".aws").touch(),
    "repository of another kind": lambda root: (root / ".hg").mkdir(),
    "repository removed": lambda root: (root / ".git").rename(root / "no-repository"),
    "repository without a head": lambda root: (root / ".git" / "HEAD").unlink(),
    "repository elsewhere": _make_pointer,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_plan_is_remembered_until_what_it_follows_from_changes(
    change: Callable[[Path], object], workspace: Path
) -> None:
    memory, given = PlanMemory(), _input(workspace)
    before = memory.confine(PROFILE, given)
    assert memory.confine(PROFILE, given) is before
    (workspace / "unrelated").write_text("x")
    assert memory.confine(PROFILE, given) is before
    change(workspace)
    after = memory.confine(PROFILE, given)
    assert after != before
    assert after == confine(PROFILE, given, FileFacts())
    assert memory.confine(PROFILE, given) is after


def test_each_change_of_a_pointer_and_of_what_it_leads_to_is_noticed(workspace: Path) -> None:
    _make_pointer(workspace)
    for name in ("second", "third"):
        (workspace / name).mkdir()
    memory, given = PlanMemory(), _input(workspace)
    plans = [memory.confine(PROFILE, given)]
    _replace(workspace / ".git", "gitdir: second\n")
    plans.append(memory.confine(PROFILE, given))
    (workspace / "second" / "commondir").write_text("../third\n")
    plans.append(memory.confine(PROFILE, given))
    assert plans[-1] == confine(PROFILE, given, FileFacts())
    assert len({plan.mounts for plan in plans}) == len(plans)


@pytest.mark.parametrize("name", [".codex", ".git", "."])
def test_link_in_place_of_a_directory_is_refused_as_if_nothing_was_remembered(
    name: str, workspace: Path
) -> None:
    (workspace / ".codex").mkdir()
    memory, given = PlanMemory(), _input(workspace)
    memory.confine(PROFILE, given)
    _exchange(Path(os.path.normpath(workspace / name)))
    with pytest.raises(ProfileRefused):
        memory.confine(PROFILE, given)
    with pytest.raises(ProfileRefused):
        confine(PROFILE, given, FileFacts())


def test_plans_with_and_without_the_places_of_others_are_both_remembered(workspace: Path) -> None:
    memory, given = PlanMemory(), _input(workspace)
    without = memory.confine(PROFILE, given)
    _hold(workspace / ".agents")
    beside = memory.confine(PROFILE, given)
    (workspace / ".agents").rmdir()
    assert memory.confine(PROFILE, given) is without
    _hold(workspace / ".agents")
    assert memory.confine(PROFILE, given) is beside


def test_memory_is_bounded(workspace: Path) -> None:
    memory = PlanMemory()
    roots = [workspace / str(number) for number in range(SCENE_COUNT + 1)]
    plans = []
    for root in roots:
        root.mkdir()
        plans.append(memory.confine(PROFILE, _input(root)))
    assert memory.confine(PROFILE, _input(roots[1])) is plans[1]
    assert memory.confine(PROFILE, _input(roots[0])) is not plans[0]
    assert len(memory._known) == SCENE_COUNT
    for name in (".codex", ".agents", ".aws"):
        (roots[0] / name).mkdir()
        memory.confine(PROFILE, _input(roots[0]))
    assert {len(known) for known in memory._known.values()} <= {1, VARIANT_COUNT}


@given(held=st.sets(st.sampled_from([".agents", ".aws", ".codex", ".git", ".paddock"])))
def test_plan_is_the_same_whatever_other_commands_hold_of_its_places(held: set[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        memory, given = PlanMemory(), _input(root)
        before = memory.confine(PROFILE, given)
        for name in held:
            _hold(root / name)
        assert memory.confine(PROFILE, given) is before
        assert confine(PROFILE, given, FileFacts()) == before


def test_place_of_another_kind_or_with_something_in_it_is_noticed(workspace: Path) -> None:
    memory, given = PlanMemory(), _input(workspace)
    before = memory.confine(PROFILE, given)
    _hold(workspace / ".aws")
    (workspace / ".aws" / "config").touch()
    assert memory.confine(PROFILE, given) != before
    (workspace / ".aws" / "config").unlink()
    (workspace / ".aws").rmdir()
    (workspace / ".aws").touch(mode=PLACEHOLDER_MODES[PlaceholderKind.FILE])
    assert memory.confine(PROFILE, given) is not before


def test_place_that_is_needed_only_while_another_command_has_it_is_noticed(workspace: Path) -> None:
    entry = AccessEntry(path=ExactPath(path=f"{workspace}/.codex"), access=Access.WRITE)
    assert isinstance(PROFILE.file_system, RestrictedFileSystem)
    files = msgspec.structs.replace(PROFILE.file_system, entries=(*PROFILE.file_system.entries, entry))
    profile = msgspec.structs.replace(PROFILE, file_system=files)
    memory, given = PlanMemory(), _input(workspace)
    alone = memory.confine(profile, given)
    _hold(workspace / ".codex")
    shared = memory.confine(profile, given)
    assert len(shared.placeholders) == len(alone.placeholders) + 1
    (workspace / ".codex").rmdir()
    assert memory.confine(profile, given) == alone


def test_kind_of_a_place_that_only_another_command_needs_goes_with_that(workspace: Path) -> None:
    memory, given = PlanMemory(), _input(workspace)
    (workspace / ".aws").touch(mode=PLACEHOLDER_MODES[PlaceholderKind.FILE])
    shared = memory.confine(PROFILE, given)
    (workspace / ".aws").unlink()
    assert memory.confine(PROFILE, given) == confine(PROFILE, given, FileFacts()) != shared


def test_plan_of_many_long_paths_is_not_remembered(workspace: Path) -> None:
    below = "/".join("d" * 100 for _ in range(30))
    paths = [f"{workspace}/{number}/{below}" for number in range(10)]
    for path in paths:
        os.makedirs(path)
    entries = [AccessEntry(path=ExactPath(path=path), access=Access.READ) for path in paths]
    assert isinstance(PROFILE.file_system, RestrictedFileSystem)
    files = msgspec.structs.replace(PROFILE.file_system, entries=(*PROFILE.file_system.entries, *entries))
    memory = PlanMemory()
    memory.confine(msgspec.structs.replace(PROFILE, file_system=files), _input(workspace))
    assert not memory._known


def test_path_of_very_many_names_is_refused(workspace: Path) -> None:
    look = FileFacts()
    with pytest.raises(ProfileRefused, match="name a directory above it"):
        look.at(f"{workspace}{'/a' * NAMES_LIMIT}")
    assert len(look.lookups) == 0


def test_plans_of_several_threads_are_remembered(workspace: Path) -> None:
    memory = PlanMemory()
    roots = [workspace / str(number) for number in range(2 * SCENE_COUNT)]
    for root in roots:
        root.mkdir()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda root: memory.confine(PROFILE, _input(root)), roots))
    assert len(memory._known) == SCENE_COUNT


def test_what_is_looked_at_again_is_little(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    for name in ("lstat", "stat", "readlink", "open", "listdir", "scandir", "statvfs"):
        original = getattr(os, name)

        def count(
            path: object, *rest: object, original: Callable[..., object] = original, **named: object
        ) -> object:
            if str(path).startswith(str(workspace)):
                looked.append(str(path))
            return original(path, *rest, **named)

        monkeypatch.setattr(os, name, count)
    memory, given = PlanMemory(), _input(workspace)
    for _ in range(2):
        looked.clear()
        memory.confine(PROFILE, given)
        assert len(looked) <= LOOKS_BELOW_WORKSPACE, sorted(looked)


def test_plan_of_an_ordinary_workspace_has_few_mounts(workspace: Path) -> None:
    plan = confine(PROFILE, _input(workspace), FileFacts())
    below = [mount for mount in plan.mounts if mount.path.startswith(str(workspace))]
    kinds = [type(mount) for mount in below]
    # The workspace, its repository, and the place of each thing that is missing; bubblewrap takes a tenth of
    # a millisecond for each mount.
    assert len(plan.placeholders) == 4
    assert kinds == [Bind] * 6

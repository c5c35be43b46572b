"""Placeholders are held for a script as long as it may be carried out, and no longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.model.profile import Limits, NetworkMode
from paddock.sandbox.enforce import held_script
from paddock.sandbox.enforce.assembly import Script
from paddock.sandbox.enforce.held_script import hold_script
from paddock.sandbox.enforce.janitor import Janitor, PlaceholderTaken
from paddock.sandbox.enforce.mount_source import FileMoved
from paddock.sandbox.enforce.recipe import Recipe
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.plan.plan import Plan
from tests.processes import open_descriptors


def script_of(plan: Plan) -> Script:
    recipe = Recipe(
        options=b"",
        all_options=b"",
        early=b"",
        filter=b"",
        said=(),
        needs_own_mounts=False,
        has_ready_devices=False,
        read_only=(),
        path_of_init=None,
    )
    return Script(plan, recipe, (), plan.limits, None, None)


def plan_with(path: Path) -> Plan:
    """A plan that needs a placeholder which is not in sight."""
    placeholders = (Placeholder(str(path), PlaceholderKind.FILE),)
    return Plan((), placeholders, (), NetworkMode.ENABLED, Limits(), "/", has_proc=True)


def test_script_that_is_not_used_leaves_nothing(janitor: Janitor, tmp_path: Path) -> None:
    plan = plan_with(tmp_path / "secret")
    janitor.hold([])
    hold_script(plan, janitor, lambda: script_of(plan)).discard()
    before = open_descriptors()
    held = hold_script(plan, janitor, lambda: script_of(plan))
    assert [made.path for made in held.made_placeholders] == [str(tmp_path / "secret")]
    assert (tmp_path / "secret").exists()
    held.discard()
    assert list(tmp_path.iterdir()) == []
    assert open_descriptors() == before


def test_placeholder_that_can_not_be_locked_is_let_go_of(
    janitor: Janitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> list[int]:
        raise PlaceholderTaken(str(tmp_path / "secret"))

    monkeypatch.setattr(held_script, "lock", fail)
    plan = plan_with(tmp_path / "secret")
    with pytest.raises(PlaceholderTaken):
        hold_script(plan, janitor, lambda: script_of(plan))
    assert list(tmp_path.iterdir()) == []


def test_file_that_moves_after_placeholders_were_locked_leaves_nothing(
    janitor: Janitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> list[MountedFile]:
        raise FileMoved(str(tmp_path))

    plan = plan_with(tmp_path / "secret")
    janitor.prepare()
    monkeypatch.setattr(held_script, "shown_placeholders", fail)
    before = open_descriptors()
    with pytest.raises(FileMoved):
        hold_script(plan, janitor, lambda: script_of(plan))
    assert open_descriptors() == before
    assert list(tmp_path.iterdir()) == []

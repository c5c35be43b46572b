"""What a plan shows is taken from where it was found, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.model.profile import Limits, NetworkMode
from paddock.sandbox.enforce.janitor import locate
from paddock.sandbox.enforce.mount_source import FileMoved, shown_placeholders, verify_directories
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.plan.mount import Bind
from paddock.sandbox.plan.plan import Plan


def test_placeholder_that_is_gone_or_behind_a_link_is_not_mounted(tmp_path: Path) -> None:
    place = tmp_path / "d" / "held"
    place.parent.mkdir()
    place.touch()
    made = Placeholder(str(place), PlaceholderKind.FILE)
    mounts = (Bind(str(place), False, ""), Bind("/usr", False, ""))
    plan = Plan(mounts, (made,), (), NetworkMode.ENABLED, Limits(), "/", has_proc=True)
    assert [shown.path for shown in shown_placeholders(plan)] == [str(place)]
    place.unlink()
    with pytest.raises(FileMoved, match="held"):
        shown_placeholders(plan)
    place.parent.rename(tmp_path / "moved")
    place.parent.symlink_to("moved")
    (tmp_path / "moved/held").touch()
    with pytest.raises(FileMoved, match="held"):
        shown_placeholders(plan)


def test_placeholder_in_another_directory_than_the_mounted_one_is_refused(tmp_path: Path) -> None:
    located = locate([Placeholder(str(tmp_path / "held"), PlaceholderKind.FILE)])
    status = os.stat(tmp_path)
    verify_directories(located, [MountedFile(str(tmp_path), status.st_dev, status.st_ino)])
    verify_directories(located, [])
    with pytest.raises(FileMoved, match=tmp_path.name):
        verify_directories(located, [MountedFile(str(tmp_path), status.st_dev, status.st_ino + 1)])

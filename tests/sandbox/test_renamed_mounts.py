"""A command stops no other one by what it calls a directory above a mount."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sandbox.identity import each_user
from tests.sandbox.mounting_host import told_by
from tests.sandbox.renamed_mounts import NAMES

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who mounts for the host"),
    each_user,
]


def test_commands_start_whatever_another_calls_a_directory_above_a_mount(
    user: int, new_directory: Path
) -> None:
    tried = told_by("renamed_mounts", "confined", user, new_directory)
    assert tried == {name: ["other"] for name in NAMES}


def test_mount_in_such_a_directory_can_be_written_outside(user: int, new_directory: Path) -> None:
    tried = told_by("renamed_mounts", "plain", user, new_directory)
    assert tried == {name: ["other", "volume"] for name in NAMES}

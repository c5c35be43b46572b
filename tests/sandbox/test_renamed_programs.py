"""A program that commands can write is theirs under each of its names, also those that a mount gives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sandbox.identity import each_user
from tests.sandbox.mounting_host import told_by

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who mounts for the host"),
    pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs FUSE"),
    each_user,
]


def test_rules_let_out_no_program_that_commands_can_write_under_another_name_and_all_else(
    user: int, new_directory: Path
) -> None:
    told = told_by("renaming_host", "confined", user, new_directory)
    assert told["escalated"] == ["safe"]
    assert told["asked"] == ["case", "twice", "overlay", "upper"]

"""On Btrfs, calls about a whole subvolume get a command to nothing that the sandbox hides in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.sandbox.identity import each_user
from tests.sandbox.mounting_host import told_by

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who mounts for the host"),
    pytest.mark.skipif(shutil.which("mkfs.btrfs") is None, reason="mkfs.btrfs is not installed"),
    each_user,
]


def test_no_snapshot_shows_what_is_denied_and_no_removal_takes_it_away(
    user: int, new_directory: Path
) -> None:
    assert told_by("subvolumes", "confined", user, new_directory) == []


def test_snapshot_and_removal_work_outside(user: int, new_directory: Path) -> None:
    everything = ["read", "snapshot", "other snapshot", "new subvolume", "close", "remove"]
    assert told_by("subvolumes", "plain", user, new_directory) == everything

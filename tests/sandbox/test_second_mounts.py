"""What a sandbox keeps from a command, it keeps from it where a mount shows it again, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sandbox.identity import each_user
from tests.sandbox.mounting_host import told_by

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who mounts for the host"),
    each_user,
]

needs_overlays = pytest.mark.skipif(
    "\toverlay\n" not in Path("/proc/filesystems").read_text(), reason="needs overlays"
)


def test_kernel_and_state_of_paddock_are_out_of_reach_through_other_mounts(
    user: int, new_directory: Path
) -> None:
    assert told_by("second_mounts", "confined", user, new_directory)["tried"] == ["write a file"]


def test_mounts_that_others_cover_hide_no_second_mount(user: int, new_directory: Path) -> None:
    assert told_by("second_mounts", "confined-covered", user, new_directory)["tried"] == ["write a file"]


@needs_overlays
def test_overlay_of_a_directory_shows_no_state_of_paddock(user: int, new_directory: Path) -> None:
    tried = told_by("second_mounts", "confined-overlaid", user, new_directory)["tried"]
    assert tried == ["read a file", "write a file"]


@needs_overlays
def test_overlay_of_a_directory_shows_everything_outside(user: int, new_directory: Path) -> None:
    tried = told_by("second_mounts", "plain-overlaid", user, new_directory)["tried"]
    assert tried[-5:] == [
        "write Paddock's state",
        "write a rule",
        "list Paddock's state",
        "read a file",
        "write a file",
    ]


@pytest.mark.parametrize("seed", range(2))
def test_kernel_agrees_about_the_mount_of_each_path(user: int, new_directory: Path, seed: int) -> None:
    told = told_by("mount_trees", f"{user}.{seed}", user, new_directory)
    assert told["differing"] == []
    assert told["seen"] > 100
    assert told["covered"] > 100


def test_kernel_and_state_of_paddock_are_in_reach_outside(user: int, new_directory: Path) -> None:
    assert told_by("second_mounts", "plain", user, new_directory)["tried"] == [
        "list processes",
        "read of the first process",
        "open a setting",
        "list objects of the kernel",
        "list nodes",
        "write Paddock's state",
        "write a rule",
        "write a file",
    ]


def test_project_in_a_file_system_of_the_kernel_is_refused(user: int, new_directory: Path) -> None:
    told = told_by("second_mounts", "confined", user, new_directory)["granted"]
    assert "a file system of the kernel's own is mounted at" in told
    assert "grant another directory" in told

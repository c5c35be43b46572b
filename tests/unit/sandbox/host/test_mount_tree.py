"""A path is on the mount that the kernel finds for it, whatever lies below."""

from __future__ import annotations

import os

import pytest

from paddock.sandbox.host.mount_line import mount_lines
from paddock.sandbox.host.mount_tree import MountTree
from paddock.sandbox.host.propagation import read_table


def tree(*mounts: tuple[int, int, str]) -> MountTree:
    """A tree of mounts with these numbers, parents and places."""
    lines = (f"{number} {parent} 8:1 / {point} rw - ext4 x rw\n" for number, parent, point in mounts)
    return MountTree(mount_lines("".join(lines).encode()))


ROOT = (20, 1, "/")


@pytest.mark.parametrize(
    ("mounts", "path", "number"),
    [
        ([ROOT], "/", 20),
        ([ROOT], "/a/b", 20),
        ([ROOT, (21, 20, "/a")], "/a", 21),
        ([ROOT, (21, 20, "/a")], "/a/b", 21),
        ([ROOT, (21, 20, "/a")], "/ab", 20),
        ([ROOT, (21, 20, "/a"), (22, 21, "/a/b")], "/a/b/c", 22),
        # The outer one is newer.
        ([ROOT, (21, 20, "/a/b"), (22, 20, "/a")], "/a/b", 22),
        ([ROOT, (21, 20, "/a/b"), (22, 20, "/a"), (23, 22, "/a/b/c")], "/a/b/c", 23),
        ([ROOT, (21, 20, "/a/b"), (22, 21, "/a/b/c"), (23, 20, "/a")], "/a/b/c/d", 23),
        # Several on the same place, in either order of the table.
        ([ROOT, (21, 20, "/a"), (22, 21, "/a")], "/a/b", 22),
        ([ROOT, (21, 22, "/a"), (22, 20, "/a")], "/a/b", 21),
        ([ROOT, (21, 20, "/a"), (22, 21, "/a/b"), (23, 21, "/a")], "/a/b", 23),
        # Paths begin below what is mounted on the root directory.
        ([ROOT, (21, 20, "/"), (22, 20, "/a"), (23, 21, "/b")], "/a", 22),
        ([ROOT, (21, 20, "/"), (22, 20, "/a"), (23, 21, "/b")], "/b", 20),
        # The first mount of a host is its own parent.
        ([(1, 1, "/"), (21, 1, "/a")], "/a/b", 21),
        # A mount that vanished while the table was read.
        ([ROOT, (21, 99, "/a")], "/a/b", 21),
    ],
)
def test_path_is_on_the_mount_that_covers_the_others(
    mounts: list[tuple[int, int, str]], path: str, number: int
) -> None:
    assert tree(*mounts).number_of(path.encode()) == b"%d" % number


def test_mount_around_a_root_directory_of_its_own_is_not_known() -> None:
    inside = tree((31, 20, "/proc"), (32, 31, "/proc/sys"), (33, 20, "/"))
    assert inside.number_of(b"/a") == b""
    assert inside.number_of(b"/proc/sys") == b"32"


def test_kernel_agrees_about_every_mount_of_this_process() -> None:
    lines = list(mount_lines(read_table()))
    found = MountTree(lines)
    for line in lines:
        try:
            file = os.open(line.point, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            with open(f"/proc/self/fdinfo/{file}", "rb") as told:
                numbers = [field[len(b"mnt_id:") :].strip() for field in told if field.startswith(b"mnt_id:")]
        finally:
            os.close(file)
        assert numbers == [found.number_of(line.point)], line.point

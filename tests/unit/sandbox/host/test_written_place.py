"""A path leads into a written place under every name that a file system may have for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from paddock.sandbox.host import question
from paddock.sandbox.host.mount_alias import mounts_in
from paddock.sandbox.host.written_place import WrittenPlaces

T = TypeVar("T")

ROOT = "1 0 8:1 / / rw - ext4 /dev/sda rw"


class Host:
    """A host with mounts, and files by their numbers. Everything exists but what is `missing`."""

    def __init__(self, *mounts: str, missing: tuple[str, ...] = (), **numbers: int) -> None:
        self._table = "".join(f"{line}\n" for line in (ROOT, *mounts)).encode()
        self._missing = missing
        self._numbers = numbers

    def ask(self, asked: Callable[[str], T], path: str) -> T:
        """Answer a question about a path."""
        answers: dict[Callable[[str], object], Any] = {
            question.mount_table: self._table,
            question.real_path: path,
            question.exists: path not in self._missing,
            # By the last name alone.
            question.identity: (1, number) if (number := self._numbers.get(path[-1:])) else None,
        }
        answer: T = answers[asked]
        return answer

    def holds(self, place: str, path: str) -> bool:
        """Return whether a written place may hold a path."""
        return WrittenPlaces([place], self.ask).may_hold(path)


def test_file_system_of_linux_has_no_other_names() -> None:
    host = Host("2 1 0:5 / /fuse rw - fuse.sshfs mac: rw", w=1, p=2)
    for path in ("/usr/bin/git", "/other/w2", "/fuse/bin/git"):
        assert not host.holds("/work/w", path)
    assert not host.holds("/fuse/w", "/usr/bin/git")


def test_directory_of_the_same_number_is_the_same_whatever_its_name() -> None:
    host = Host("2 1 0:5 / /c rw - 9p C: rw", w=1, W=1, p=2)
    assert host.holds("/c/w", "/c/W")
    assert host.holds("/c/w", "/c/W/bin/git")
    assert host.holds("/vfat/w", "/vfat/W/bin/git")
    assert not host.holds("/c/w", "/c/p/bin/git")


def test_numbers_of_some_file_systems_tell_nothing() -> None:
    """A server of FUSE may have a number for each path."""
    host = Host("2 1 0:5 / /fuse rw - fuse.sshfs mac: rw", w=1, W=2)
    assert host.holds("/fuse/w", "/fuse/W/bin/git")
    assert host.holds("/fuse/w", "/fuse/other/git")
    # What lies below counts too.
    assert host.holds("/", "/fuse/other/git")


@pytest.mark.parametrize("kind", ["fuse.sshfs", "9p", "nfs4", "new-in-linux-9"])
def test_second_mount_may_show_the_same_files(kind: str) -> None:
    mounts = [f"2 1 0:5 / /a rw - {kind} x rw", "3 1 0:6 / /b rw - nfs4 y rw"]
    assert Host(*mounts).holds("/a/w", "/b/git")
    assert not Host(*mounts).holds("/work", "/b/git")


@pytest.mark.parametrize("flags", [("ro", "rw"), ("rw", "ro")])
def test_nothing_is_written_through_a_mount_that_is_read_only(flags: tuple[str, str]) -> None:
    mounts = [f"2 1 0:5 / /a {flags[0]},nosuid - fuse.x x {flags[1]},x", "3 1 0:6 / /b rw - nfs4 y rw"]
    assert not Host(*mounts).holds("/a", "/b/git")


OVERLAY = "2 1 0:5 / {} rw - overlay overlay rw,lowerdir={},upperdir=/up,workdir=/x"


def test_overlay_shows_its_layers() -> None:
    host = Host(OVERLAY.format("/tools", "/one:/home/w"), w=1)
    assert host.holds("/home/w", "/tools/git")
    assert host.holds("/home/w", "/tools")
    assert not host.holds("/home/w", "/usr/bin/git")
    assert not Host(OVERLAY.format("/tools", "/one:/home/p"), w=1).holds("/home/w", "/tools/git")


def test_what_is_written_in_an_overlay_appears_in_its_upper_layer() -> None:
    host = Host(OVERLAY.format("/home/w", "/one"), w=1)
    assert host.holds("/home/w", "/up/git")
    # It is never written.
    assert not host.holds("/home/w", "/one/git")


def test_layer_may_lie_in_another_overlay_or_in_a_bind_mount() -> None:
    other = "3 1 0:6 / /over rw - overlay overlay rw,lowerdir=/tools/sub,upperdir=/up2,workdir=/x"
    assert Host(OVERLAY.format("/tools", "/home/w"), other, w=1).holds("/home/w", "/over/git")
    bound = "3 1 8:1 /home/w/sub /bound rw - ext4 /dev/sda rw"
    assert Host(OVERLAY.format("/tools", "/bound"), bound, w=1).holds("/home/w", "/tools/git")


def test_overlay_over_one_of_its_own_layers_ends_the_look() -> None:
    assert not Host(OVERLAY.format("/usr", "/ext:/usr"), w=1).holds("/home/w", "/usr/bin/git")


@pytest.mark.parametrize("lower", ["/gone", "l/relative", "/one:/gone"])
@pytest.mark.parametrize(("point", "is_held"), [("/tools", True), ("/", False), ("/usr", False)])
def test_layer_that_can_not_be_found_counts_unless_the_overlay_holds_the_system(
    lower: str, point: str, is_held: bool
) -> None:
    """A container's root has layers that nobody in it can see."""
    host = Host(OVERLAY.format(point, lower), missing=("/gone", "/up"), w=1)
    assert host.holds("/home/w", f"{point.rstrip('/')}/bin/git") is is_held


def test_overlay_that_does_not_tell_its_layers_counts() -> None:
    for point, is_held in (("/tools", True), ("/", False)):
        host = Host(f"2 1 0:5 / {point} rw - fuse.fuse-overlayfs fuse-overlayfs rw", w=1)
        assert host.holds("/home/w", f"{point.rstrip('/')}/git") is is_held


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (r"lowerdir=/a:/b::/c,upperdir=/u,workdir=/w", ("/a", "/b", "/c", "/u")),
        (r"lowerdir=/a\134:b:/c\040d\054e", ("/a\\:b", "/a:b", "/c d,e")),
        (r"lowerdir+=/a:b,lowerdir+=/c,datadir+=/d", ("/a:b", "/c", "/d")),
        (r"lowerdir=l/A:l/B", ("l/A", "l/B")),
    ],
)
def test_layers_are_read_as_the_kernel_writes_them(options: str, layers: tuple[str, ...]) -> None:
    (mount,) = mounts_in(f"2 1 0:5 / /m rw - overlay overlay rw,{options}\n".encode())
    assert mount.layers == layers


def test_host_itself_is_asked(tmp_path: Path) -> None:
    for name in ("w", "p"):
        (tmp_path / name).mkdir()
    os.symlink("w", tmp_path / "link")
    for place in ("w", "link"):
        places = WrittenPlaces([f"{tmp_path}/{place}", f"{tmp_path}/missing"])
        assert places.may_hold(f"{tmp_path}/w/git")
        assert not places.may_hold(f"{tmp_path}/p/git")

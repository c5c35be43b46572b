"""The kernel's own file systems are found wherever they are mounted."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from paddock.errors import ProfileRefused
from paddock.sandbox.host.kernel_mount import kernel_mounts


class Status:
    """What `os.stat` finds of a device."""

    def __init__(self, device: str) -> None:
        self.st_dev = os.makedev(*map(int, device.split(":")))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | int]:
    """The device at each path, or the failure to look."""
    found: dict[str, str | int] = {}

    def stat(path: str) -> Any:
        at = found.get(path, errno.ENOENT)
        if isinstance(at, int):
            raise OSError(at, os.strerror(at), path)
        return Status(at)

    monkeypatch.setattr(os, "stat", stat)
    return found


def table(*lines: tuple[str, str, str]) -> bytes:
    """A table with these devices, mount points and types."""
    return "".join(
        f"{number} {20 if number > 20 else 1} {device} / {point} rw shared:1 - {kind} none rw\n"
        for number, (device, point, kind) in enumerate(lines, start=20)
    ).encode()


USUAL = (("8:1", "/", "ext4"), ("0:20", "/proc", "proc"), ("0:21", "/sys", "sysfs"), ("0:5", "/dev", "tmpfs"))


@pytest.mark.parametrize(
    ("line", "at", "found"),
    [
        (("0:20", "/srv/root/proc", "proc"), "0:20", ("/srv/root/proc",)),
        (("0:40", "/srv/root/sys", "sysfs"), "0:40", ("/srv/root/sys",)),
        (("0:5", "/srv/root/dev", "tmpfs"), "0:5", ("/srv/root/dev",)),
        (("0:41", "/srv/root/pts", "devpts"), "0:41", ("/srv/root/pts",)),
        # In their usual places others deal with them.
        (("0:42", "/sys/kernel/debug", "debugfs"), "0:42", ()),
        (("0:43", "/proc/sys/fs/binfmt_misc", "binfmt_misc"), "0:43", ()),
        (("0:44", "/dev/mqueue", "mqueue"), "0:44", ()),
        # Files of people.
        (("0:45", "/srv/tmp", "tmpfs"), "0:45", ()),
        (("8:2", "/srv/data", "ext4"), "8:2", ()),
        # Another mount covers it.
        (("0:20", "/srv/root/proc", "proc"), "8:2", ()),
        (("0:20", "/srv/root/proc", "proc"), errno.ENOENT, ()),
        # An earlier command may have closed the way, and the next one opens it again.
        (("0:20", "/srv/root/proc", "proc"), errno.EACCES, ("/srv/root/proc",)),
    ],
)
def test_mounts_of_the_kernel_outside_their_usual_places_are_found(
    seen: dict[str, str | int], line: tuple[str, str, str], at: str | int, found: tuple[str, ...]
) -> None:
    seen[line[1]] = at
    assert kernel_mounts(table(*USUAL, line)) == found


def test_mount_in_another_is_hidden_with_it(seen: dict[str, str | int]) -> None:
    inner, outer = ("0:22", "/r/sys/fs/cgroup", "cgroup2"), ("0:21", "/r/sys", "sysfs")
    seen |= {inner[1]: inner[0], outer[1]: outer[0]}
    assert kernel_mounts(table(*USUAL, inner, outer)) == ("/r/sys",)


def test_mount_that_can_not_be_looked_at_is_refused(seen: dict[str, str | int]) -> None:
    seen["/r/proc"] = errno.EIO
    with pytest.raises(ProfileRefused, match="/r/proc can't be looked at"):
        kernel_mounts(table(*USUAL, ("0:20", "/r/proc", "proc")))


def test_directory_of_nodes_that_is_no_mount_hides_nothing(seen: dict[str, str | int]) -> None:
    seen["/data"] = "8:1"
    assert kernel_mounts(table(("8:1", "/", "ext4"), ("8:1", "/data", "ext4"))) == ()

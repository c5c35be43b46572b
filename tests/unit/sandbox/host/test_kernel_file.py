"""What of the kernel's own files is closed, by the list of what may be seen."""

from __future__ import annotations

import os

from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    ManagedProfile,
    MinimalPath,
    NamedPath,
    RestrictedFileSystem,
    RootPath,
)
from paddock.sandbox.host.kernel_file import VISIBLE, _closed_mounts, closed_files
from paddock.sandbox.host.look import KernelFile
from paddock.sandbox.plan.plan import Plan, PlanInput, confine
from paddock.sandbox.profile.access import Surroundings
from tests.unit.sandbox.imagined_host import ImaginedFiles

CLOSED = (
    KernelFile("/proc/keys", is_directory=False),
    KernelFile("/proc/new", is_directory=True),
    KernelFile("/sys/kernel/debug", is_directory=True),
)
READABLE = AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ)

MOUNTS = b"""\
22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw
23 22 0:6 / /sys/kernel/security rw shared:8 - securityfs securityfs rw
26 22 0:24 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw
27 22 0:25 / /sys/fs/pstore rw - pstore pstore rw
30 22 0:7 / /sys/kernel/debug rw - debugfs debugfs rw
31 30 0:12 / /sys/kernel/debug/tracing rw - tracefs tracefs rw
32 28 0:13 / /system rw - ext4 /dev/vda rw
33 22 0:14 / /sys/kernel/brand-new rw - newfs newfs rw
"""


def _plan(*entries: AccessEntry, has_proc: bool = True) -> Plan:
    files = ImaginedFiles({"/w/": "", "/usr/": "", "/sys/kernel/debug/": "", "/proc/keys": ""})
    surroundings = Surroundings(project_roots=("/w",), minimal=("/usr",))
    given = PlanInput(surroundings, "/usr", has_proc=has_proc, closed=CLOSED)
    return confine(ManagedProfile(file_system=RestrictedFileSystem(entries=entries)), given, files)


def _mounted(plan: Plan) -> set[str]:
    return {mount.path for mount in plan.mounts} & {file.path for file in CLOSED}


def test_what_is_closed_is_covered_where_it_is_in_sight() -> None:
    assert _mounted(_plan(READABLE)) == {"/proc/keys", "/proc/new", "/sys/kernel/debug"}


def test_an_empty_proc_and_a_view_without_sys_have_nothing_to_cover() -> None:
    minimal = AccessEntry(path=NamedPath(value=MinimalPath()), access=Access.READ)
    assert _mounted(_plan(minimal, has_proc=False)) == set()
    assert _mounted(_plan(minimal)) == {"/proc/keys", "/proc/new"}


def test_a_profile_that_names_a_mount_among_the_kernels_objects_shows_it() -> None:
    named = AccessEntry(path=ExactPath(path="/sys/kernel/debug"), access=Access.READ)
    assert _mounted(_plan(READABLE, named)) == {"/proc/keys", "/proc/new"}


def test_only_the_file_systems_on_the_list_are_shown_in_sys() -> None:
    assert _closed_mounts(MOUNTS) == {
        "/sys/kernel/security",
        "/sys/fs/pstore",
        "/sys/kernel/debug",
        "/sys/kernel/brand-new",
    }


def test_what_others_call_the_directories_above_mounts_does_not_matter() -> None:
    other = "40 28 0:40 / /home/s\rb/\u2028/volume rw - tmpfs tmpfs rw\n".encode()
    assert _closed_mounts(other + MOUNTS) == _closed_mounts(MOUNTS)


def test_nothing_is_closed_that_may_be_seen() -> None:
    closed = {path for path, _ in closed_files()}
    assert not closed & {f"/proc/{name}" for name in VISIBLE}
    assert "/proc/keys" in closed or not os.path.exists("/proc/keys")

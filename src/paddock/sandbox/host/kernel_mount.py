"""Finds the kernel's own file systems that are mounted outside of /proc, /sys and /dev.

The tree of a chroot, of a container or of a build often has a /proc, a /sys and a /dev of its own. Through
them a command would reach what those of its sandbox keep from it: processes, settings and device nodes of the
host. This module finds them in the table of mounts; the planner denies them under every profile.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

from paddock.sandbox.host.absence import NO_FILE, OUT_OF_REACH, refuse_unless
from paddock.sandbox.host.mount_alias import Mount, mounts_in
from paddock.sandbox.profile.path import DEV, KERNEL_OBJECTS, PROC, is_within

KERNEL_FILE_SYSTEMS: Final = frozenset(
    (
        # Processes, settings and objects of the kernel.
        *(b"proc", b"sysfs", b"cgroup", b"cgroup2", b"configfs", b"binfmt_misc", b"resctrl", b"efivarfs"),
        # For debugging, tracing and crashes.
        *(b"debugfs", b"tracefs", b"pstore", b"bpf"),
        # Security modules.
        *(b"securityfs", b"selinuxfs", b"smackfs", b"apparmorfs"),
        # Controls of other file systems and protocols.
        *(b"fusectl", b"nfsd", b"rpc_pipefs", b"dlmfs", b"ocfs2_dlmfs"),
        # Nodes, terminals and message queues, which a command owns or shares with the host.
        *(b"devtmpfs", b"devpts", b"mqueue", b"binder", b"functionfs", b"gadgetfs", b"xenfs"),
    )
)
"""Types of file systems whose files are controls or state of the kernel. Nobody keeps work in them."""


def kernel_mounts(table: bytes) -> tuple[str, ...]:
    """Return where they are, outermost only and sorted, by a table of `read_table`.

    Raises ProfileRefused if it can't be told what is at one of these paths.
    """
    found = {mount.point for mount in _candidates(table) if _is_in_sight(mount)}
    return tuple(
        sorted(path for path in found if not any(is_within(path, other) for other in found - {path}))
    )


def may_have_kernel_mounts(table: bytes) -> bool:
    """Return whether the answer of `kernel_mounts` depends on more than the table."""
    return bool(_candidates(table))


@lru_cache(maxsize=1)
def _candidates(table: bytes) -> tuple[Mount, ...]:
    """Return the lines of a table that may be what is looked for. Most hosts have none."""
    mounts = mounts_in(table)
    # In containers /dev is a tmpfs, which may be mounted elsewhere too.
    of_nodes = {mount.device for mount in mounts if mount.point == DEV}
    return tuple(
        mount
        for mount in mounts
        if (mount.kind in KERNEL_FILE_SYSTEMS or mount.device in of_nodes)
        and not any(is_within(mount.point, usual) for usual in (PROC, KERNEL_OBJECTS, DEV))
    )


def _is_in_sight(mount: Mount) -> bool:
    """Return whether a path leads to a mount, or may: another mount may cover it, or a directory above it."""
    try:
        device = os.stat(mount.point).st_dev
    except OSError as error:
        refuse_unless(NO_FILE | OUT_OF_REACH, error, mount.point)
        # A command may open a directory again that an earlier one has closed. The plan judges that.
        return isinstance(error, PermissionError)
    return b"%d:%d" % (os.major(device), os.minor(device)) == mount.device

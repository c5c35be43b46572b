"""Finds paths that a command could reach past what is mounted on them, by a name in another case.

Some file systems ignore case themselves, such as directories that macOS or Windows shares by FUSE, 9p, SMB or
NFS. If the kernel does not know, it takes `.env` and `.ENV` for two names, and a mount on one of them is not
on the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from paddock.errors import ProfileRefused
from paddock.sandbox.host import question
from paddock.sandbox.host.kernel_mount import KERNEL_FILE_SYSTEMS
from paddock.sandbox.host.mount_alias import Mount, mount_of, mounts_in
from paddock.sandbox.profile.path import ROOT, ancestors, is_within, parent
from paddock.shortage import raise_if_short

COMPARED_BY_KERNEL: Final = frozenset(
    (
        *(b"ext2", b"ext3", b"ext4", b"xfs", b"btrfs", b"bcachefs", b"f2fs", b"zfs", b"tmpfs", b"overlay"),
        *(b"vfat", b"msdos", b"exfat", b"ntfs3", b"fuse.fuse-overlayfs"),
    )
)
"""Types of file systems where the kernel knows which names are one, whether or not case matters. Masks in all
others are examined."""


def uncertain_paths(table: bytes, paths: Iterable[str]) -> tuple[str, ...]:
    """Return what may have another name of these paths and the directories above them.

    The paths have no links, and the table is of `read_table`.
    """
    mounts = _uncertain_mounts(table)
    if not mounts:
        return ()
    inside = (path for path in paths if any(is_within(path, mount.point) for mount in mounts))
    found = (above for path in inside for above in (path, *ancestors(path)) if above != ROOT)
    return tuple(path for path in dict.fromkeys(found) if _mount_of_name(path, table) in mounts)


def refuse_other_spellings(paths: Iterable[str]) -> None:
    """Raise ProfileRefused if one of these paths, all of which exist, can be reached past its own name."""
    for path in paths:
        other = _swapped(path)
        is_missing = isinstance(question.status(other), int)
        if not is_missing and not _are_listed(path, other) and not _are_one_name(path, other):
            raise ProfileRefused(
                path,
                f"can be reached as {other} too: its file system ignores case, and the kernel does not know",
                "work in a file system of Linux's own",
            )


@lru_cache(maxsize=1)
def _uncertain_mounts(table: bytes) -> tuple[Mount, ...]:
    return tuple(
        mount
        for mount in mounts_in(table)
        if mount.kind not in COMPARED_BY_KERNEL and mount.kind not in KERNEL_FILE_SYSTEMS
    )


def _mount_of_name(path: str, table: bytes) -> Mount | None:
    """Return the mount that holds the name of a path, whatever is mounted there."""
    return mount_of(parent(path), mounts_in(table))


def _swapped(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/{name.swapcase()}"


def _are_listed(path: str, other: str) -> bool:
    """Return whether both names are in their directory, so that they are of two files."""
    try:
        names = set(os.listdir(parent(path)))
    except OSError as error:
        raise_if_short(error)
        return False
    return {os.path.basename(path), os.path.basename(other)} <= names


def _are_one_name(path: str, other: str) -> bool:
    """Return whether the kernel itself takes two names for one, and has one for what is mounted there."""
    files = []
    try:
        # The kernel tells the same name for both, as long as the first is open.
        for each in (path, other):
            files.append(os.open(each, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        names = {os.readlink(f"/proc/self/fd/{file}") for file in files}
    except OSError as error:
        raise_if_short(error)
        return False
    finally:
        for file in files:
            os.close(file)
    return len(names) == 1

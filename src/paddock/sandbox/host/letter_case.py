"""Finds paths that a command could reach past what is mounted on them, by another spelling of their name.

Some file systems ignore case themselves, such as directories that macOS or Windows shares by FUSE, 9p, SMB or
NFS. Some ignore how letters with accents are put together, or have a short name of eight letters for each
file. If the kernel does not know, it takes `.env` and `.ENV` for two names, and a mount on one of them is not
on the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
        *(b"ext2", b"ext3", b"ext4", b"xfs", b"btrfs", b"bcachefs", b"f2fs", b"zfs", b"tmpfs"),
        *(b"vfat", b"msdos", b"exfat", b"ntfs3"),
        *(b"jfs", b"reiserfs", b"nilfs2", b"ubifs", b"jffs2", b"ocfs2", b"gfs2"),
        *(b"squashfs", b"erofs", b"iso9660", b"udf", b"ramfs", b"rootfs", b"autofs"),
    )
)
"""Types of file systems where the kernel knows which names are one, whether or not case matters."""

_LAYERED: Final = frozenset((b"overlay", b"fuse.fuse-overlayfs"))
"""Types that have the names of other file systems, which may be on a share."""

_SHORT_NAME_LETTERS: Final = 6
_SHORT_NAMES: Final = 4
"""Windows numbers the short names that begin alike so far, and makes up others from then on."""

_UNKNOWN: Final = "and the kernel does not know"
_REMEDY: Final = "work in a file system of Linux's own"


def is_compared_elsewhere(mount: Mount) -> bool:
    """Return whether only the file system behind a mount knows which of its names are one. Of an overlay, ask
    about its layers."""
    return not any(mount.kind in kinds for kinds in (COMPARED_BY_KERNEL, KERNEL_FILE_SYSTEMS, _LAYERED))


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
    """Raise ProfileRefused if what is at one of these paths can be reached past its own name."""
    for path in paths:
        other = other_spelling(path)
        if other is not None and not _are_one_name(path, other):
            raise ProfileRefused(path, f"can be reached as {other} too, {_UNKNOWN}", _REMEDY)


def refuse_aliases(paths: Iterable[str]) -> None:
    """Raise ProfileRefused if what is at one of these paths has another name.

    This is for whoever looks past all mounts, and judges by names what is hidden there.
    """
    for path in paths:
        if (other := other_spelling(path)) is not None:
            raise ProfileRefused(path, f"has the name {other} too, {_UNKNOWN}", _REMEDY)


def other_spelling(path: str) -> str | None:
    """Return another path at which a file system seems to find what is at a path; None for none."""
    directory, _, name = path.rpartition("/")
    for spelling in _spellings(name):
        other = f"{directory}/{spelling}"
        if isinstance(question.status(other), int) or isinstance(question.status(path), int):
            continue
        # If both are listed, they are two files.
        if not {name, spelling} <= _names_in(parent(path)):
            return other
    return None


@lru_cache(maxsize=1)
def _uncertain_mounts(table: bytes) -> tuple[Mount, ...]:
    return tuple(
        mount for mount in mounts_in(table) if mount.kind in _LAYERED or is_compared_elsewhere(mount)
    )


def _mount_of_name(path: str, table: bytes) -> Mount | None:
    """Return the mount that holds the name of a path, whatever is mounted there."""
    return mount_of(parent(path), mounts_in(table))


def _spellings(name: str) -> Iterator[str]:
    """Return other names that a file system may take for a name."""
    found = [name.swapcase()]
    if not name.isascii():
        # Most names are.
        import unicodedata

        found += [unicodedata.normalize(form, name) for form in ("NFC", "NFD")]
    stem, _, kind = name.lstrip(".").rpartition(".")
    stem, kind = (stem, f".{kind[:3]}") if stem else (kind, "")
    letters = stem.replace(".", "").replace(" ", "")[:_SHORT_NAME_LETTERS]
    if letters:
        found += [f"{letters}~{number}{kind}".upper() for number in range(1, _SHORT_NAMES + 1)]
    return (each for each in dict.fromkeys(found) if each != name)


def _names_in(directory: str) -> frozenset[str]:
    """Return the names in a directory; none if it can't be listed."""
    try:
        return frozenset(os.listdir(directory))
    except OSError as error:
        raise_if_short(error)
        return frozenset()


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

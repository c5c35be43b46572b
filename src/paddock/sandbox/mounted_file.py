"""Which files a plan mounts, so that the first process of a sandbox can tell whether they were.

bubblewrap is told paths, and another command in the same tree may exchange what is at
a path for a link, between the moment when the plan was made and that of the mount. A
file is found here step by step, and no link is followed, so it is one that lies
where the plan says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from paddock.sandbox.mount import Bind, LocatedPlaceholder, MountedFile
from paddock.sandbox.path import ROOT, is_within, parent
from paddock.sandbox.plan import Plan
from paddock.sandbox.shortage import raise_if_short
from paddock.sandbox.view import KERNEL_OBJECTS, PROC


class FileMoved(Exception):
    """What the plan was made of is not there any more."""


def mounted_files(plan: Plan) -> list[MountedFile]:
    """What the plan shows of the host's files, each at its place. Raises FileMoved."""
    return [_look(mount.path) for mount in plan.mounts if isinstance(mount, Bind) and not _is_kernels(mount)]


def verify_directories(places: Iterable[LocatedPlaceholder], mounted: Iterable[MountedFile]) -> None:
    """Raise FileMoved if a place was located in another directory than the one that is to be mounted."""
    known = {file.path: (file.device, file.inode) for file in mounted}
    for place in places:
        located = (place.device, place.inode)
        if known.get(parent(place.path), located) != located:
            raise FileMoved(parent(place.path))


def open_without_links(path: str) -> int:
    """Open an absolute path, to be looked at or acted in. Raises OSError if a link is on the way.

    A link at its end is opened itself.
    """
    file = os.open(ROOT, os.O_PATH | os.O_CLOEXEC)
    for name in path.strip("/").split("/") if path != ROOT else ():
        try:
            following = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=file)
        finally:
            os.close(file)
        file = following
    return file


def is_at(file: MountedFile) -> bool:
    """Whether a file of the host still has its path."""
    try:
        status = os.lstat(file.path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (file.device, file.inode)


def _is_kernels(mount: Bind) -> bool:
    """Whether it was mounted without being granted. No command can exchange these."""
    return mount.path in (ROOT, KERNEL_OBJECTS) or is_within(mount.path, PROC)


def _look(path: str) -> MountedFile:
    try:
        file = open_without_links(path)
    except OSError as error:
        raise_if_short(error)
        raise FileMoved(path) from error
    try:
        status = os.fstat(file)
    finally:
        os.close(file)
    return MountedFile(path, status.st_dev, status.st_ino)

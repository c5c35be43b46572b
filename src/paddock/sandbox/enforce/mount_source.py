"""Lists the files that a plan mounts, so that the first process of a sandbox can tell whether they were.

bubblewrap mounts by path, and another command in the same tree may replace a file by a link between the plan
and the mount. This module walks to each file step by step and follows no link, so the file that it finds lies
where the plan says.
"""

from __future__ import annotations

from paddock.sandbox.enforce.janitor import PlaceholderTaken, identify
from paddock.sandbox.host.linkless import identity_without_links
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder
from paddock.sandbox.plan.mount import Bind
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.path import KERNEL_OBJECTS, PROC, ROOT, is_within, parent
from paddock.shortage import raise_if_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class FileMoved(Exception):
    """A file that the plan relies on is no longer there."""


def mounted_files(plan: Plan) -> list[MountedFile]:
    """Return the host files that the plan shows, each with its path. Raises FileMoved.

    Leaves out what is made for the plan, because it need not exist yet.
    """
    made = {placeholder.path for placeholder in plan.placeholders}
    return [
        _look(mount.path)
        for mount in plan.mounts
        if isinstance(mount, Bind) and mount.path not in made and not _is_kernels(mount)
    ]


def shown_placeholders(plan: Plan) -> list[MountedFile]:
    """Return the placeholders that the command can see, each with its path. Raises FileMoved."""
    made = {placeholder.path for placeholder in plan.placeholders}
    shown = (mount.path for mount in plan.mounts if isinstance(mount, Bind) and mount.path in made)
    try:
        return identify(shown)
    except PlaceholderTaken as error:
        raise FileMoved(str(error)) from error


def verify_directories(placeholders: Iterable[LocatedPlaceholder], mounted: Iterable[MountedFile]) -> None:
    """Raise FileMoved if a placeholder was located in a directory other than the one to mount."""
    known = {file.path: (file.device, file.inode) for file in mounted}
    for placeholder in placeholders:
        located = (placeholder.device, placeholder.inode)
        if known.get(parent(placeholder.path), located) != located:
            raise FileMoved(parent(placeholder.path))


def _is_kernels(mount: Bind) -> bool:
    """Return whether a file is mounted without being granted. No command can replace such files."""
    return mount.path in (ROOT, KERNEL_OBJECTS) or is_within(mount.path, PROC)


def _look(path: str) -> MountedFile:
    try:
        return MountedFile(path, *identity_without_links(path))
    except OSError as error:
        raise_if_short(error)
        raise FileMoved(path) from error

"""Tells what a sandbox shows instead of the host's files, to explain what a command has met.

Where the sandbox mounts something over a file, this module shows only the mount, as the command sees it.
Neither the command nor a reader of its denials may learn whether anything is below. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.sandbox.denial.attempt import Content
from paddock.sandbox.host.placeholder import Placeholder
from paddock.sandbox.plan.mount import Bind, EmptyDirectory, Mount, Seal, UnreadableFile
from paddock.sandbox.plan.view import DENIED_MODE
from paddock.sandbox.profile.path import ancestors


class MountOverlay:
    """The mounts of a plan that lie over files; some stand where the host has nothing."""

    def __init__(self, mounts: Iterable[Mount], placeholders: Iterable[Placeholder] = ()) -> None:
        self._mounts = {mount.path: mount for mount in mounts if not isinstance(mount, Seal)}
        held = {placeholder.path for placeholder in placeholders}
        self._held = {path for path in held if not isinstance(self._mounts.get(path), Bind)}
        self._passed = {directory for path in self._mounts for directory in ancestors(path)}

    def at(self, path: str) -> Content | None:
        """Return what the sandbox shows at a path without links; None if that is what the host has."""
        mount_point = next(
            (mount_point for mount_point in (path, *ancestors(path)) if mount_point in self._mounts), None
        )
        if mount_point in self._held:
            return Content.NOTHING
        mount = None if mount_point is None else self._mounts[mount_point]
        match mount:
            case EmptyDirectory(mode=mode) if mode == DENIED_MODE:
                return Content.DIRECTORY if mount_point == path else Content.REFUSED
            case EmptyDirectory():
                is_own = mount_point == path or path in self._passed
                return Content.OWN if is_own else Content.NOTHING
            case UnreadableFile():
                return Content.FILE if mount_point == path else Content.NOWHERE
        return None

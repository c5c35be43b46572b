"""Tells what a sandbox shows instead of the host's files, to explain what a command has met.

Where it covers something, only the overlay is told of, as inside: whether there is anything
below is not for the command to know, nor for whoever reads what it was refused. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.sandbox.denial.attempt import Content
from paddock.sandbox.host.placeholder import Placeholder
from paddock.sandbox.plan.mount import Bind, EmptyDirectory, Mount, Seal, UnreadableFile
from paddock.sandbox.plan.view import DENIED_MODE
from paddock.sandbox.profile.path import ancestors


class MountOverlay:
    """The covers among the mounts of a plan, some of which are where nothing is on the host."""

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

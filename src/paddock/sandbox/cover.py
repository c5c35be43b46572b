"""What a sandbox shows in place of the files of the host, for whoever wonders what a command has met.

Where it covers something, only the cover is told of, as inside: whether there is anything
below is not for the command to know, nor for whoever reads what it was refused. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.sandbox.attempt import Content
from paddock.sandbox.mount import Bind, EmptyDirectory, Mount, Placeholder, Seal, UnreadableFile
from paddock.sandbox.path import ancestors
from paddock.sandbox.view import DENIED_MODE


class Cover:
    """The covers among the mounts of a plan, some of which are where nothing is on the host."""

    def __init__(self, mounts: Iterable[Mount], placeholders: Iterable[Placeholder] = ()) -> None:
        self._mounts = {mount.path: mount for mount in mounts if not isinstance(mount, Seal)}
        held = {place.path for place in placeholders}
        self._held = {path for path in held if not isinstance(self._mounts.get(path), Bind)}
        self._passed = {directory for path in self._mounts for directory in ancestors(path)}

    def at(self, path: str) -> Content | None:
        """What is shown at a path, once links are out of the way; None if that is what the host has."""
        place = next((place for place in (path, *ancestors(path)) if place in self._mounts), None)
        if place in self._held:
            return Content.NOTHING
        mount = None if place is None else self._mounts[place]
        match mount:
            case EmptyDirectory(mode=mode) if mode == DENIED_MODE:
                return Content.DIRECTORY if place == path else Content.REFUSED
            case EmptyDirectory():
                is_own = place == path or path in self._passed
                return Content.OWN if is_own else Content.NOTHING
            case UnreadableFile():
                return Content.FILE if place == path else Content.NOWHERE
        return None

"""Finds where the paths lead that somebody asks for, so that questions and grants name what is meant.

A profile may hide files. To learn where a hidden path leads, the executor looks in a sandbox that shows
nothing more than that path and its directory; no content of it is read. Nobody looks outside of a sandbox.
"""

from __future__ import annotations

import posixpath
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from paddock.agent.executor import Executor
from paddock.agent.permission import Confinement, Permissions, Reach
from paddock.agent.real_path import Location, locate
from paddock.client.confinement import Sandbox
from paddock.errors import FileError
from paddock.model.profile import Access


class Place(Struct, frozen=True):
    """A path that somebody asked for, and where it leads."""

    asked: str
    location: Location
    is_hidden: bool = False
    """Whether the profile does not show what is there, or would be."""

    @property
    def real(self) -> str:
        """Return the path without links, as far as it exists."""
        return self.location.path

    @property
    def is_missing(self) -> bool:
        """Return whether nothing is there."""
        return bool(self.location.missing)


class Places:
    """Looks for paths under the profile of one agent, as its commands see them."""

    def __init__(
        self, executor: Executor, confinement: Confinement, reach: Reach, sandbox: Sandbox | None
    ) -> None:
        self._executor = executor
        self._confinement = confinement
        self._reach = reach
        self._sandbox = sandbox

    async def find(self, path: str) -> Place:
        """Return where an absolute path leads. Raises RequestError."""
        location = await locate(self._executor.files(self._sandbox), path)
        if self._sandbox is None or not self._confinement.denies_reads:
            return Place(path, location)
        if self._reach.grants(location.existing, Access.READ):
            return Place(path, location)
        if location.missing and (view := self._view_of(path, self._sandbox)) is not None:
            # What the profile hides looks like what does not exist. Whoever asks for it must not learn
            # before the approval what is there.
            with suppress(FileError):
                location = await locate(self._executor.files(view), path)
        return Place(path, location, is_hidden=True)

    def _view_of(self, path: str, sandbox: Sandbox) -> Sandbox | None:
        """Return a sandbox that also shows a path and its directory; None where that can't be had."""
        if self._confinement.has_denied_paths:
            # An entry about a longer path wins: it would show what the profile denies.
            return None
        shown = Permissions(read=tuple(dict.fromkeys((path, posixpath.dirname(path)))))
        profile = self._confinement.widened(shown)
        return None if profile is None else replace(sandbox, profile=profile)

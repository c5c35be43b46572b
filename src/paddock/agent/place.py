"""Finds where the paths lead that somebody asks for, so that questions and grants name what is meant.

Nobody looks outside of the sandbox.
"""

from __future__ import annotations

from msgspec import Struct

from paddock.agent.executor import Executor
from paddock.agent.real_path import Location, locate
from paddock.client.confinement import Sandbox


class Place(Struct, frozen=True):
    """A path that somebody asked for, and where it leads."""

    asked: str
    location: Location

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

    def __init__(self, executor: Executor, sandbox: Sandbox | None) -> None:
        self._executor = executor
        self._sandbox = sandbox

    async def find(self, path: str) -> Place:
        """Return where an absolute path leads. Raises RequestError."""
        return Place(path, await locate(self._executor.files(self._sandbox), path))

"""Finds where a path leads on an executor's host, even if nothing is there yet."""

from __future__ import annotations

import posixpath

from msgspec import Struct

from paddock.agent.executor import FileAccess
from paddock.errors import NotFound


class Location(Struct, frozen=True):
    """Where a path leads."""

    existing: str
    """The part that exists, without links: all of it, or the nearest directory above."""
    missing: str = ""
    """The rest, as it was written."""

    @property
    def path(self) -> str:
        """Return the whole path."""
        return posixpath.join(self.existing, self.missing).rstrip("/") or "/"


async def locate(files: FileAccess, path: str) -> Location:
    """Return where an absolute path leads, as far as these files show it. Raises RequestError."""
    missing = ""
    while True:
        try:
            return Location(await files.canonicalize(path or "/"), missing)
        except NotFound:
            if path in ("", "/"):
                raise
            path, _, name = path.rstrip("/").rpartition("/")
            missing = posixpath.join(name, missing) if missing else name


async def real_path(files: FileAccess, path: str) -> str:
    """Return an absolute path without links, as far as it exists. Raises RequestError."""
    return (await locate(files, path)).path

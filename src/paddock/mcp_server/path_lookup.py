"""Finds where the paths of two profiles lead on the files' host, as a command under the cap sees it.

Two profiles can only be compared by the files that they are about: a link gives a file another name. The
host looks for each path inside the sandbox of the cap, so a client learns nothing that a command could not
find out, and no path leads through a directory that the cap denies. There, what the cap protects is on mounts
of its own: a client's grant of such a path would open it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import FileError, InvalidRequest, NotFound
from paddock.sandbox.profile.path import ROOT, ancestors, join, parent

PATHS_LIMIT: Final = 512
"""Paths of both profiles together: each takes a request to the server, and a profile names a few dozen."""


class Location(Struct, frozen=True):
    """A path without links. A missing path has no links in the part that exists."""

    path: str
    is_missing: bool = False
    is_read_only: bool = False
    """Whether no command under the cap writes there, as far as that was asked."""


class Lookup(Protocol):
    """Questions about the files of a host, confined to the cap."""

    def has(self, capability: str) -> bool:
        """Return whether the server offers a capability."""
        ...

    async def canonicalize(self, path: str, /) -> str:
        """Return the path without links. Raises NotFound for what leads nowhere."""
        ...

    async def is_read_only(self, path: str, /) -> bool:
        """Return whether what is at a path is on a mount that can't be written."""
        ...

    async def metadata(self, path: str, /, *, follow_symlinks: bool = True) -> object:
        """Describe a path. Raises NotFound, and InvalidRequest for a link that is not to be followed."""
        ...


async def locate(files: Lookup, paths: Collection[str], written: Collection[str] = ()) -> dict[str, Location]:
    """Return where clean paths lead, and of the `written` ones whether the cap lets them be written.

    Leave out a path that the host can't resolve.
    """
    known: dict[str, Location | None] = {ROOT: Location(ROOT)}
    for path in paths:
        await _locate(files, path, known)
    found = {path: location for path in paths if (location := known[path]) is not None}
    for path in found.keys() & set(written):
        found[path] = replace(found[path], is_read_only=await _is_read_only(files, found[path].path))
    return found


async def _is_read_only(files: Lookup, path: str) -> bool:
    """Ask about a path, or the nearest directory above it that is there; in doubt it is read-only."""
    for nearest in (path, *ancestors(path)):
        try:
            return await files.is_read_only(nearest)
        except NotFound:
            continue
        except (FileError, InvalidRequest):
            break
    return True


async def _locate(files: Lookup, path: str, known: dict[str, Location | None]) -> Location | None:
    if path not in known:
        try:
            known[path] = Location(await files.canonicalize(path))
        except NotFound:
            above = await _locate(files, parent(path), known)
            known[path] = None if above is None else await _missing(files, path, above)
        except (FileError, InvalidRequest):
            known[path] = None
    return known[path]


async def _missing(files: Lookup, path: str, above: Location) -> Location | None:
    """Return where a file would be made; None for a link, whose target the cap does not show."""
    location = Location(join(above.path, path.rpartition("/")[2]), is_missing=True)
    if above.is_missing:
        return location
    if not files.has("fsLinks"):
        return None
    try:
        await files.metadata(location.path, follow_symlinks=False)
    except NotFound:
        return location
    except (FileError, InvalidRequest):
        pass
    return None

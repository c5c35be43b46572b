"""`fs/watchMissing`, `fs/watch` and `fs/unwatch`: notifications about changes to files."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paddock.model.change import ChangeKind
from paddock.protocol.bound import MAX_ENTRIES
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result, Unsigned


class WatchMissingParams(Params, frozen=True, kw_only=True):
    """Notify once when one of these paths appears, or `present` vanishes."""

    watch_id: Unsigned
    """The id in the notification. A connection has one such watch; a later one replaces it."""
    missing: Annotated[list[HostPath], Meta(max_length=MAX_ENTRIES)]
    """Paths that do not exist."""
    present: HostPath | None = None
    """A path that exists."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class WatchMissingResult(Result, frozen=True, kw_only=True):
    """Whether there is a watch now."""

    watching: bool
    """False if the paths differ from the request, or can't be watched: the client must check them itself."""


class MissingChangedEvent(Result, frozen=True, kw_only=True):
    """A missing path has appeared, or the present one vanished; the watch has ended."""

    watch_id: int
    """As in the request."""


class WatchParams(Params, frozen=True, kw_only=True):
    """Notify of changes in a directory, or to a file."""

    path: HostPath
    """The directory or file; the server follows a link."""
    recursive: bool = False
    """Whether to watch everything below it as well; the server does not follow links below it."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class WatchResult(Result, frozen=True, kw_only=True):
    """A watch that lasts until `fs/unwatch`, the end of its path, or of the connection."""

    watch_id: int
    """Its id in notifications."""


class UnwatchParams(Params, frozen=True, kw_only=True):
    """End a watch."""

    watch_id: Unsigned
    """The watch; an ended one is no error."""


class Change(Result, frozen=True, kw_only=True):
    """How a path changed since the last notification about it. A move is a deletion and a creation."""

    path: str
    """The path, in the form of the watched one."""
    kind: ChangeKind
    """A file that took the place of another in one step is `created`; if this server put it there, by
    `fs/edit` for example, `modified`."""


class ChangedEvent(Result, frozen=True, kw_only=True):
    """Changes of about a twentieth of a second, at most one for each path.

    When the watched path itself is deleted, the watch has ended.
    """

    watch_id: int
    """The watch."""
    events: list[Change]
    """In the order in which the paths changed first."""
    overflow: bool
    """Whether there were more changes than fit: examine the files themselves."""

"""`fs/watchMissing`, `fs/watch` and `fs/unwatch`: to be told of changes to files."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from paddock.model.change import ChangeKind
from paddock.protocol.bound import MAX_ENTRIES
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result, Unsigned


class WatchMissingParams(Params, frozen=True, kw_only=True):
    """Tell once when one of these paths appears, or `present` vanishes."""

    watch_id: Unsigned
    """What the notification will say. A connection has one such watch; a later one takes its place."""
    missing: Annotated[list[HostPath], Meta(max_length=MAX_ENTRIES)]
    """Paths that do not exist."""
    present: HostPath | None = None
    """A path that exists."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class WatchMissingResult(Result, frozen=True, kw_only=True):
    """Whether there is a watch now."""

    watching: bool
    """False if it is not as the request says, or can't be watched: the client must look itself."""


class MissingChangedEvent(Result, frozen=True, kw_only=True):
    """A missing path has appeared, or the present one vanished; the watch has ended."""

    watch_id: int
    """As in the request."""


class WatchParams(Params, frozen=True, kw_only=True):
    """Tell what changes in a directory, or about a file."""

    path: HostPath
    """The directory or file; a link is followed."""
    recursive: bool = False
    """Whether everything below it is meant as well; links below it are not followed."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class WatchResult(Result, frozen=True, kw_only=True):
    """A watch that lasts until `fs/unwatch`, the end of its path, or of the connection."""

    watch_id: int
    """What notifications call it."""


class UnwatchParams(Params, frozen=True, kw_only=True):
    """End a watch."""

    watch_id: Unsigned
    """The watch; one that has ended already is no error."""


class Change(Result, frozen=True, kw_only=True):
    """What became of a path since it was last told. A move is a deletion and a creation."""

    path: str
    """The path, in the form in which the watched one was given."""
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
    """Whether there was more than could be told: look at the files themselves."""

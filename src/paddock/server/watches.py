"""The watches of one connection, and their notifications.

It gathers changes for a moment, so that a burst is one message, and for as long as the client does not keep
up. It notifies only the client that asked, and its watches end with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from paddock.errors import InvalidRequest
from paddock.fs.changes import Batch
from paddock.fs.lanes import Lanes
from paddock.fs.read_filter import ReadFilter
from paddock.fs.watch_missing import MissingWatch
from paddock.fs.watch_set import WatchSet
from paddock.fs.watch_tree import TreeWatch
from paddock.protocol.path import HostPath
from paddock.protocol.structure import Result
from paddock.protocol.watch import Change, ChangedEvent, MissingChangedEvent

GATHERING_S = 0.05
"""How long changes are gathered: a person does not notice it, and a build makes hundreds in it."""

MAX_WATCHES = 128
"""Watches of one connection; many directories are better watched as one tree."""

MAX_MISSING = 1024
"""Paths that one `fs/watchMissing` may name: each is looked at whenever something happens near it."""


class Reader(Protocol):
    """The client, as far as watches are concerned."""

    def notify(self, method: str, params: Result) -> None:
        """Send a notification."""

    async def caught_up(self) -> None:
        """Wait until the client keeps up."""


class _Watched(Struct, frozen=True):
    path: HostPath
    tree: TreeWatch


class ClientWatches:
    """The watches of one connection. `aclose` ends them."""

    def __init__(self, reader: Reader, lanes: Lanes) -> None:
        self._reader = reader
        self._lanes = lanes
        self._set: WatchSet | None = None
        self._trees: dict[int, _Watched] = {}
        self._missing: MissingWatch | None = None
        self._last_id = 0
        self._is_answered: set[int] = set()
        """Watches whose id the client knows. It gets no changes of others."""
        self._has_changed = asyncio.Event()
        self._telling: asyncio.Task[None] | None = None

    async def watch(
        self,
        path: HostPath,
        target: bytes,
        *,
        is_recursive: bool,
        read_filter: ReadFilter | None = None,
        real: bytes | None = None,
    ) -> int:
        """Begin a watch of what may be read and return its id; `announce` must follow. Raises RequestError.

        With a read filter, `real` is where the path leads for the client.
        """
        if len(self._trees) >= MAX_WATCHES:
            raise InvalidRequest(f"at most {MAX_WATCHES} watches per connection; end one with fs/unwatch")
        self._last_id += 1
        watch_id = self._last_id
        tree = TreeWatch(
            self._watch_set(),
            target,
            self._has_changed.set,
            is_recursive=is_recursive,
            read_filter=read_filter,
            real=real,
        )
        self._trees[watch_id] = _Watched(path, tree)
        try:
            await tree.begin()
        except BaseException:
            self._trees.pop(watch_id, None)
            tree.end()
            raise
        return watch_id

    def announce(self, watch_id: int) -> None:
        """Begin to send the client changes: it knows the id now.

        Do nothing if it has guessed the id and ended it.
        """
        if watch_id in self._trees:
            self._is_answered.add(watch_id)
            self._has_changed.set()

    def unwatch(self, watch_id: int) -> None:
        """End a watch. One that has ended, or never was, is no error."""
        watched = self._trees.pop(watch_id, None)
        self._is_answered.discard(watch_id)
        if watched is not None:
            watched.tree.end()

    async def watch_missing(
        self,
        watch_id: int,
        missing: Sequence[bytes],
        present: bytes | None,
        read_filter: ReadFilter | None = None,
    ) -> bool:
        """Notify once when one of the paths appears or `present` vanishes. This replaces an earlier watch."""
        if self._missing is not None:
            self._missing.end()
            self._missing = None
        if not missing:
            return False
        if len(missing) > MAX_MISSING:
            raise InvalidRequest(f"at most {MAX_MISSING} missing paths can be watched; name fewer")

        def tell() -> None:
            self._reader.notify("fs/missingChanged", MissingChangedEvent(watch_id=watch_id))

        watch = self._missing = MissingWatch(self._watch_set(), missing, present, tell, read_filter)
        return await watch.begin()

    async def aclose(self) -> None:
        """End every watch. Idempotent."""
        watch_set, self._set = self._set, None
        if watch_set is None:
            return
        for watched in self._trees.values():
            watched.tree.end()
        if self._missing is not None:
            self._missing.end()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])
        await watch_set.aclose()

    def _watch_set(self) -> WatchSet:
        if self._set is None:
            self._set = WatchSet(self._lanes)
            self._telling = asyncio.get_running_loop().create_task(self._tell_changes())
        return self._set

    async def _tell_changes(self) -> None:
        while True:
            await self._has_changed.wait()
            await asyncio.sleep(GATHERING_S)
            await self._reader.caught_up()
            self._has_changed.clear()
            for watch_id in sorted(self._is_answered):
                await self._tell_one(watch_id)

    async def _tell_one(self, watch_id: int) -> None:
        """Send all waiting changes of one watch, in messages of bounded size, one in each turn of the
        loop."""
        while (watched := self._trees.get(watch_id)) is not None:
            if not watched.tree.has_changes:
                if watched.tree.is_ended:
                    self.unwatch(watch_id)
                return
            batch = watched.tree.take()
            self._reader.notify("fs/changed", _event(watch_id, watched.path, batch))
            await asyncio.sleep(0)
            await self._reader.caught_up()


def _event(watch_id: int, path: HostPath, batch: Batch) -> ChangedEvent:
    events = [Change(path=path.like(changed), kind=kind) for changed, kind in batch.changes]
    return ChangedEvent(watch_id=watch_id, events=events, overflow=batch.is_overflowed)

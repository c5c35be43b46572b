"""Watches files on the server's host and yields their changes.

A watch lives on one connection. When that is lost, the client sets the watch up again on the next one and
reports an overflow, because nobody knows what changed in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from paddock.client.wire_path import local_name
from paddock.model.change import ChangeKind
from paddock.protocol.watch import ChangedEvent

MAX_UNREAD: Final = 1000
"""Batches that may wait for the reader; anything more becomes an overflow."""


class FileChange(Struct, frozen=True):
    """A change to a path. A move is a deletion and a creation."""

    path: str
    kind: ChangeKind


class Changes(Struct, frozen=True):
    """Changes that came together, at most one for each path."""

    changes: tuple[FileChange, ...]
    is_overflow: bool
    """Whether changes were lost. If so, look at the files themselves."""


class Watchers:
    """The watches of one connection, by the numbers that the server gave them."""

    def __init__(self) -> None:
        self._watches: dict[int, Watch] = {}
        self._early: dict[int, list[ChangedEvent]] = {}
        self._opening = 0

    def told(self, event: ChangedEvent) -> None:
        """Take a notification from the server.

        It may arrive before the caller learns the number of its watch.
        """
        watch = self._watches.get(event.watch_id)
        if watch is not None:
            watch.receive(event)
        elif self._opening:
            self._early.setdefault(event.watch_id, []).append(event)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Mark the block in which a client asks for a watch."""
        self._opening += 1
        try:
            yield
        finally:
            self._opening -= 1
            if not self._opening:
                self._early.clear()

    def add(self, watch_id: int, watch: Watch) -> None:
        """Pass a watch the notifications under its number, including those that have already arrived."""
        self._watches[watch_id] = watch
        for event in self._early.pop(watch_id, []):
            watch.receive(event)

    def discard(self, watch_id: int) -> None:
        """Drop a watch that is no longer wanted."""
        self._watches.pop(watch_id, None)

    def lose(self) -> None:
        """End every watch: the server's watches end with the lost connection."""
        watches = list(self._watches.values())
        self._watches.clear()
        self._early.clear()
        for watch in watches:
            watch.lose()


class Watch:
    """A watch, and an asynchronous iterator over its changes. Use it with `async with`.

    Iteration ends when the watched path itself is deleted.
    """

    def __init__(
        self,
        watchers: Watchers,
        path: str,
        begin: Callable[[], Awaitable[int]],
        end: Callable[[int], Awaitable[None]],
    ) -> None:
        self._watchers = watchers
        self._path = path
        self._begin = begin
        self._end = end
        self._watch_id: int | None = None
        self._unread: deque[ChangedEvent] = deque()
        self._is_lost = False
        self._has_news = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        watch_id, self._watch_id = self._watch_id, None
        if watch_id is not None:
            self._watchers.discard(watch_id)
            await self._end(watch_id)

    async def __aiter__(self) -> AsyncIterator[Changes]:
        while True:
            while self._unread:
                event = self._unread.popleft()
                changes = tuple(FileChange(local_name(each.path), each.kind) for each in event.events)
                yield Changes(changes, event.overflow)
                if any(each.path == self._path and each.kind is ChangeKind.DELETED for each in changes):
                    return
            if self._is_lost:
                await self._open()
                yield Changes((), is_overflow=True)
                continue
            self._has_news.clear()
            await self._has_news.wait()

    def receive(self, event: ChangedEvent) -> None:
        """Take an event from the server."""
        if len(self._unread) < MAX_UNREAD:
            self._unread.append(event)
        else:
            last = self._unread.pop()
            self._unread.append(ChangedEvent(watch_id=last.watch_id, events=last.events, overflow=True))
        self._has_news.set()

    def lose(self) -> None:
        """Note that the connection is lost. The next request waits for another, or fails."""
        self._watch_id = None
        self._is_lost = True
        self._has_news.set()

    async def _open(self) -> None:
        self._is_lost = False
        with self._watchers.opening():
            self._watch_id = await self._begin()
            self._watchers.add(self._watch_id, self)

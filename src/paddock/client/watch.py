"""Watches files on the server's host and yields their changes.

A watch lives on one connection. When that is lost, the client sets the watch up again on the next one and
reports an overflow, because nobody knows what changed in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from paddock.client.watchers import Watchers
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


class Begun(Struct, frozen=True):
    """A watch that the server keeps, for as long as the link lasts."""

    watch_id: int
    """Its number, which another watch may have on another link."""
    link_number: int
    """The link that it belongs to."""


class Watch:
    """A watch, and an asynchronous iterator over its changes. Use it with `async with`.

    Iteration ends when the watched path itself is deleted.
    """

    def __init__(
        self,
        watchers: Watchers,
        path: str,
        begin: Callable[[], Coroutine[Any, Any, Begun]],
        end: Callable[[Begun], Coroutine[Any, Any, None]],
        *,
        has_link: Callable[[int], bool],
    ) -> None:
        """`path` is the watched one in the form of the changes that it yields."""
        self._watchers = watchers
        self._path = path
        self._begin = begin
        self._end = end
        self._has_link = has_link
        self._begun: Begun | None = None
        self._unread: deque[ChangedEvent] = deque()
        self._is_lost = False
        self._has_news = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            self._watchers.discard(begun.watch_id)
            await self._end(begun)

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
        self._begun = None
        self._is_lost = True
        self._has_news.set()

    async def _open(self) -> None:
        """Begin the watch. If that fails or is cancelled, the next iteration tries again."""
        try:
            with self._watchers.opening():
                beginning = asyncio.get_running_loop().create_task(self._begin())
                try:
                    begun = await asyncio.shield(beginning)
                except asyncio.CancelledError:
                    # The server's answer, which nobody waits for any more, tells which watch to end.
                    beginning.add_done_callback(self._end_unwanted)
                    raise
                # The link may be lost by now, and nobody has told a watch that was not yet added.
                if self._has_link(begun.link_number):
                    self._begun, self._is_lost = begun, False
                    self._watchers.add(begun.watch_id, self)
                    return
        except BaseException:
            self._is_lost = True
            raise
        self.lose()

    def _end_unwanted(self, beginning: asyncio.Task[Begun]) -> None:
        if not beginning.cancelled() and beginning.exception() is None:
            ending = asyncio.get_running_loop().create_task(self._end(beginning.result()))
            _endings.add(ending)
            ending.add_done_callback(_ended)


_endings: set[asyncio.Task[None]] = set()
"""Ends of watches that nobody waits for. The loop itself holds no task."""


def _ended(ending: asyncio.Task[None]) -> None:
    _endings.discard(ending)
    if not ending.cancelled():
        # A lost connection has ended the watch as well.
        ending.exception()

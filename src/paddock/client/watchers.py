"""The watches of one connection, which few connections have: so this does not import what they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.client.watch import Watch
    from paddock.protocol.watch import ChangedEvent


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

"""A process of a session, with what its requests need to stay in order and happen once."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from paddock.errors import UnknownProcess
from paddock.process.managed import ManagedProcess
from paddock.protocol.process import StartResult

if TYPE_CHECKING:
    from paddock.server.process_network import ProcessNetwork

REMEMBERED_WRITES = 4096
"""Write ids remembered per process: far more than a client has in flight when it reconnects."""


class SessionProcess:
    """A process of a session, with what its requests need to stay in order and happen once."""

    __slots__ = ("_order", "is_starting", "managed", "network", "start", "write_ids")

    def __init__(self, managed: ManagedProcess) -> None:
        self.managed = managed
        self.start: asyncio.Task[StartResult] | None = None
        """The start, unless it has failed."""
        self.is_starting = False
        """Whether the start is still under way."""
        self.network: ProcessNetwork | None = None
        """Its proxy, if it has one, until it is closed."""
        self.write_ids: set[str] = set()
        """The ids of the latest writes that were accepted."""
        self._order: deque[str] = deque(maxlen=REMEMBERED_WRITES)

    def begin_start(self, start: asyncio.Task[StartResult]) -> None:
        """Note that the process is being started."""
        self.start = start
        self.is_starting = True
        start.add_done_callback(self._start_ended)

    def _start_ended(self, start: asyncio.Task[StartResult]) -> None:
        self.is_starting = False
        if has_failed(start):
            # The frames of its exception lead back here, and keep the whole request.
            self.start = None

    async def started(self) -> None:
        """Wait until the start has succeeded. Raises UnknownProcess when it failed."""
        start = self.start
        if start is None or start.done():
            return
        await asyncio.wait([start])
        if has_failed(start):
            raise UnknownProcess(self.managed.description.process_id)

    def begin_unanswered(self) -> None:
        """Begin its events when it has started, because no client is left to get the answer to the start."""
        if self.start is not None:
            self.start.add_done_callback(self._begin_if_started)

    def _begin_if_started(self, start: asyncio.Task[StartResult]) -> None:
        if not has_failed(start):
            self.managed.begin()

    def remember_write(self, write_id: str) -> None:
        """Remember an accepted write, whose id is not among `write_ids`."""
        order = self._order
        if len(order) == REMEMBERED_WRITES:
            self.write_ids.discard(order[0])
        order.append(write_id)
        self.write_ids.add(write_id)


def has_failed(start: asyncio.Task[StartResult]) -> bool:
    """Return whether a start is over and nothing was started."""
    return start.done() and (start.cancelled() or start.exception() is not None)

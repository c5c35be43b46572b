"""Decides whose input is handled next, if that of many connections waits.

Each connection handles a bounded part of its input at a time, but one client may have hundreds of them. So
all together get a bounded time in one turn of the loop, and what is left waits for the next turns. It is
handled in the order of weighted fair queueing: what a connection has taken, and what its next part is likely
to take, puts that behind the parts of those that take less. One that says little waits for about one part of
another's, however many others there are, and one that comes anew gains nothing by that.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Final, TypeAlias

TURN_S: Final = 0.005
"""How long input is handled in one turn of the loop, before the part that is the last."""

FIRST_PART_S: Final = 0.001
"""What the first part of a connection is expected to take."""

_Waiting: TypeAlias = "tuple[float, int, float, InputShare, Callable[[], None]]"
"""When it is expected to end, in virtual time; its place among equals; when it begins; and what it is."""


class InputTurns:
    """The turns of all connections of one listener."""

    def __init__(self, clock_s: Callable[[], float] = time.perf_counter) -> None:
        self._clock_s = clock_s
        self._spent_s = 0.0
        """What this turn has taken, and those before it while nothing had to wait: a callback in each turn
        would cost more than most requests."""
        self._is_next_due = False
        self._waiting: list[_Waiting] = []
        self._asked = 0
        self._running: InputShare | None = None
        self._further: Callable[[], None] | None = None
        """What is left after the part that is handled now."""
        self._virtual_s = 0.0
        """When the part that was handled last began, in virtual time."""

    def share(self) -> InputShare:
        """Return the share of one more connection."""
        return InputShare(self)

    @property
    def has_room(self) -> bool:
        """Return whether this turn has time left."""
        return self._spent_s < TURN_S

    def _run(self, share: InputShare, work: Callable[[], None], begins_s: float) -> None:
        self._virtual_s = max(self._virtual_s, begins_s)
        self._running = share
        begun_s = self._clock_s()
        try:
            work()
        finally:
            taken_s = self._clock_s() - begun_s
            self._spent_s += taken_s
            if not self.has_room:
                self._schedule()
            share.ended_s = begins_s + taken_s
            # A large message comes in many parts, of which only the last takes long.
            share.expected_s = max(taken_s, share.expected_s / 2)
            self._running = None
            if (further := self._further) is not None:
                self._further = None
                self._wait(share, further)

    def _begin_of(self, share: InputShare) -> float:
        return max(self._virtual_s, share.ended_s)

    def _wait(self, share: InputShare, work: Callable[[], None]) -> None:
        if share is self._running:
            # Its place depends on what the part that asks takes.
            self._further = work
            return
        self._asked += 1
        begins_s = self._begin_of(share)
        heapq.heappush(self._waiting, (begins_s + share.expected_s, self._asked, begins_s, share, work))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_due = False
        self._spent_s = 0.0
        # Nobody has two parts in one turn: others may have something to say by then.
        last = self._asked
        later: list[_Waiting] = []
        try:
            while self._waiting and self.has_room:
                entry = heapq.heappop(self._waiting)
                _, place, begins_s, share, work = entry
                if place > last:
                    later.append(entry)
                else:
                    self._run(share, work, begins_s)
        finally:
            for entry in later:
                heapq.heappush(self._waiting, entry)
            if self._waiting:
                self._schedule()


class InputShare:
    """One connection's share."""

    def __init__(self, turns: InputTurns) -> None:
        self._turns = turns
        self.ended_s = 0.0
        """When its last part ended, in virtual time."""
        self.expected_s = FIRST_PART_S
        """What its next part is likely to take."""

    @property
    def has_room(self) -> bool:
        """Return whether this turn has time left."""
        return self._turns.has_room

    def run(self, work: Callable[[], None]) -> None:
        """Do a part of the work now. Only if there `has_room`."""
        self._turns._run(self, work, self._turns._begin_of(self))

    def wait(self, work: Callable[[], None]) -> None:
        """Do a part of the work in one of the next turns."""
        self._turns._wait(self, work)

"""Decides whose input is handled next, if that of many connections waits.

Each connection handles a bounded part of its input at a time, but one client may have hundreds of them. So
all together get a bounded time in one turn of the loop, and what is left waits for the next turns. There are
two orders, which take part by part alternately:

- The part that is likely to be the shortest comes first. So one that says little waits for about one part of
  those that say much, however many they are and however little they have said before.
- Weighted fair queueing: what a connection has taken, and what its next part is likely to take, puts that
  behind the parts of those that take less. So nobody waits for ever, and one that comes anew gains nothing by
  that.

Those that may be anybody have one share together: however many they are, they count as one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Final

TURN_S: Final = 0.005
"""How long input is handled in one turn of the loop, before the part that is the last."""

COMMON_S: Final = 0.003
"""How much of a turn those have who share one share. With a part alone, a few busy clients would let 250 that
connect at once wait for seconds."""

FIRST_PART_S: Final = 0.001
"""What the first part of a connection is expected to take."""

BYTE_S: Final = 50e-9
"""What a byte of input is expected to take: a message of many small values takes as much, most take less. So
whoever has been quick before can't put a large message in front of small ones."""


class InputTurns:
    """The turns of all connections of one listener."""

    # By the time of the processor: a part that other programs interrupt is not a long one.
    def __init__(self, clock_s: Callable[[], float] = time.thread_time) -> None:
        self._clock_s = clock_s
        self._spent_s = 0.0
        """What this turn has taken, and those before it while nothing had to wait: a callback in each turn
        would cost more than most requests."""
        self._is_next_due = False
        self._waiting: list[InputShare] = []
        """Those that have a part that waits, in the order of asking."""
        self._is_shortest_next = False
        self._virtual_s = 0.0
        """When the part that was handled last began, in virtual time."""

    def share(self) -> InputShare:
        """Return the share of one more connection."""
        return InputShare(self)

    def common_share(self) -> InputShare:
        """Return the share of many connections that count as one, of which a turn may have several parts."""
        return InputShare(self, is_common=True)

    @property
    def has_room(self) -> bool:
        """Return whether this turn has time left."""
        return self._spent_s < TURN_S

    def _run(self, share: InputShare, work: Callable[[], None]) -> None:
        begins_s = self._virtual_s = max(self._virtual_s, share.ended_s)
        share.is_running = True
        begun_s = self._clock_s()
        try:
            work()
        finally:
            taken_s = self._clock_s() - begun_s
            self._spent_s += taken_s
            if not self.has_room:
                self._schedule()
            share.is_running = False
            share.ended_s = begins_s + taken_s
            # A large message comes in many parts, of which only the last takes long.
            share.expected_s = max(taken_s, share.expected_s / 2)

    def _line_up(self, share: InputShare) -> None:
        """Let the first part of a share wait, if there is one."""
        if share.parts:
            _, size_bytes = share.parts[0]
            share.next_s = max(share.expected_s, min(size_bytes * BYTE_S, TURN_S))
            share.ends_s = max(self._virtual_s, share.ended_s) + share.next_s
            self._waiting.append(share)
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_next_due = False
        self._spent_s = 0.0
        # Nobody has two parts in one turn: others may have something to say by then.
        ready, self._waiting = self._waiting, []
        try:
            while ready and self.has_room:
                self._is_shortest_next = not self._is_shortest_next
                # The first of equals, which has waited longest. There are some hundred at most.
                share = min(ready, key=_NEXT if self._is_shortest_next else _END)
                ready.remove(share)
                until_s = self._spent_s + (COMMON_S if share.is_common else 0.0)
                try:
                    for number in range(len(share.parts)):
                        if number and (self._spent_s >= until_s or not self.has_room):
                            break
                        self._run(share, share.parts.popleft()[0])
                finally:
                    self._line_up(share)
        finally:
            self._waiting[:0] = ready
            if self._waiting:
                self._schedule()


class InputShare:
    """One connection's share, or that of many which count as one."""

    __slots__ = ("_turns", "ended_s", "ends_s", "expected_s", "is_common", "is_running", "next_s", "parts")

    def __init__(self, turns: InputTurns, *, is_common: bool = False) -> None:
        self._turns = turns
        self.is_common = is_common
        self.parts: deque[tuple[Callable[[], None], int]] = deque()
        """What waits, in the order of asking, and the size of each."""
        self.is_running = False
        self.ended_s = 0.0
        """When its last part ended, in virtual time."""
        self.expected_s = FIRST_PART_S
        """What its next part is likely to take, if it is not large."""
        self.next_s = 0.0
        """What the part that waits is likely to take."""
        self.ends_s = 0.0
        """When that is likely to end, in virtual time."""

    @property
    def has_room(self) -> bool:
        """Return whether this turn has time left, and nothing that was asked for before waits."""
        return self._turns.has_room and not self.parts

    def run(self, work: Callable[[], None]) -> None:
        """Do a part of the work now. Only if there `has_room`."""
        try:
            self._turns._run(self, work)
        finally:
            if self.parts:
                # Its place depends on what this part took.
                self._turns._line_up(self)

    def wait(self, work: Callable[[], None], size_bytes: int = 0) -> None:
        """Do a part of the work in one of the next turns, after those that wait already; one in each turn,
        but for a common share.

        `size_bytes` is what has come of the message that it may complete.
        """
        self.parts.append((work, size_bytes))
        if not self.is_running and len(self.parts) == 1:
            self._turns._line_up(self)


_NEXT: Final = attrgetter("next_s")
_END: Final = attrgetter("ends_s")

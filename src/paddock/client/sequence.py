"""Events of one process, put back into the order of their numbers. Pure.

A server numbers the events of a process from 1 without gaps but may send them in
another order. `Sequencer` holds back what comes early. It does not know what an
event is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from paddock.errors import ProtocolViolation

T = TypeVar("T")

MAX_EARLY_EVENTS: Final = 1024
"""Events held back while one is missing. Servers that send in parallel swap neighbours; a gap this wide
means that the missing event will never come."""


class Sequencer(Generic[T]):
    """Gives every event once, in order. `last_seq` tells how far that has come."""

    __slots__ = ("_early", "_max_early", "last_seq")

    def __init__(self, max_early: int = MAX_EARLY_EVENTS) -> None:
        self.last_seq = 0
        self._max_early = max_early
        self._early: dict[int, T] = {}

    def push(self, seq: int, event: T) -> Sequence[T]:
        """Take one event and give those that are now next in order, perhaps none.

        A number that was seen before is ignored. Raises ProtocolViolation when too
        many events wait for a missing one.
        """
        if seq == self.last_seq + 1 and not self._early:
            self.last_seq = seq
            return (event,)
        if seq <= self.last_seq or seq in self._early:
            return ()
        self._early[seq] = event
        ready = []
        while self.last_seq + 1 in self._early:
            self.last_seq += 1
            ready.append(self._early.pop(self.last_seq))
        if len(self._early) > self._max_early:
            raise ProtocolViolation(
                f"event {self.last_seq + 1} of a process is missing, and {len(self._early)} later ones came"
            )
        return ready

"""Puts the events of one process back in order, whatever the connection did to them. Pure.

A server numbers the events of a process from 1: output, one exit and, last, one close. They arrive as
notifications, perhaps out of order, and are lost with a connection. The client requests what it missed with
`process/read`. The answer lists the output that the server still has, and counts the exit and the close
without listing them. An `EventSequence` merges both: it yields every piece of output once and in order, and a
`Gap` wherever the server has dropped some.

It sends nothing itself: while `needs_read` is set, its owner must make a `process/read` after `last_seq` on
the current connection and pass it the answer. A whole answer is the more complete one, because newer output
pushes older output out of what a server retains. A page, limited in size, gets through where connections are
short-lived. Pages are for servers that report their gaps and send events in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, Struct

from paddock.protocol.process import OutputChunk, ReadResult
from paddock.protocol.process_event import ClosedEvent, ExitedEvent, OutputEvent

MAX_EARLY_EVENTS: Final = 4096
"""Events held back while an earlier one is missing. Servers that send in parallel swap neighbours, and events
sent during the round trip of a read arrive before its answer. Beyond this limit, the client drops output and
requests it again."""


class Gap(Struct, frozen=True):
    """Output that the server no longer had when the client requested it: everything numbered in this range.

    `size_bytes` is an upper bound on its size, and None where the server does not report it. The range may
    include the number of the exit.
    """

    from_seq: int
    to_seq: int
    size_bytes: int | None


Piece = OutputEvent | OutputChunk
ProcessEvent = OutputEvent | ExitedEvent | ClosedEvent
Item = Piece | Gap


class EventSequence:
    """Takes events and answers in any order; returns output and gaps in order, each once."""

    __slots__ = (
        "_early",
        "_forgotten_to",
        "_is_exit_placed",
        "_live_from",
        "held_bytes",
        "is_closed",
        "last_seq",
        "needs_read",
    )

    def __init__(self, after_seq: int = 0) -> None:
        self.last_seq = after_seq
        """Everything up to this number has been given out."""
        self.needs_read = False
        """Whether events may be missing that will not come by themselves."""
        self.is_closed = False
        """Whether everything has been given out and nothing more will come."""
        self.held_bytes = 0
        """Output that waits for an earlier event."""
        self._early: dict[int, ProcessEvent | OutputChunk] = {}
        self._is_exit_placed = False
        self._forgotten_to = 0
        self._live_from: int | None = None

    def push(self, event: ProcessEvent) -> Sequence[Item]:
        """Take a notification. Ignore one that was seen before."""
        seq = event.seq
        if self.needs_read and self._live_from is None:
            self._live_from = seq
        if seq == self.last_seq + 1 and not self._early:
            return self._pass(event)
        if seq <= self.last_seq or seq in self._early:
            return ()
        self._hold(event)
        items = self._drain()
        if len(self._early) > MAX_EARLY_EVENTS:
            self._forget_output()
        return items

    def cut(self) -> None:
        """Note that some events may never come: the connection was lost, or nobody listened before now."""
        self.needs_read = True
        self._live_from = None

    def merge(self, reading: ReadResult, *, is_page: bool = False) -> Sequence[Item]:
        """Take the answer to a `process/read`; `is_page` says that it was limited in size."""
        for chunk in reading.chunks:
            if chunk.seq > self.last_seq and chunk.seq not in self._early:
                self._hold(chunk)
        end = reading.next_seq - 1
        # A page may end before the close, and a process whose fate the server does not know is closed
        # without an event.
        is_at_end = not reading.chunks or reading.chunks[-1].seq < end
        if reading.closed and reading.exited and is_at_end and end > self.last_seq and end not in self._early:
            self._hold(ClosedEvent(process_id="", seq=end))
        items = self._settle(end, self._gaps(reading, end))
        has_more = is_page and bool(reading.chunks)
        self._is_exit_placed |= reading.exited and not has_more
        is_live = self._live_from is not None and self.last_seq >= self._live_from - 1
        self.needs_read = (has_more and not is_live) or self._forgotten_to > self.last_seq
        return items

    # --- in order -----------------------------------------------------------

    def _pass(self, event: ProcessEvent | OutputChunk) -> Sequence[Item]:
        self.last_seq = event.seq
        if isinstance(event, OutputEvent | OutputChunk):
            return (event,)
        if isinstance(event, ClosedEvent):
            self.is_closed = True
        else:
            self._is_exit_placed = True
        return ()

    def _drain(self) -> list[Item]:
        items: list[Item] = []
        while (event := self._early.pop(self.last_seq + 1, None)) is not None:
            if isinstance(event, OutputEvent | OutputChunk):
                self.held_bytes -= len(event.chunk)
            items.extend(self._pass(event))
        return items

    def _settle(self, end: int, gaps: list[Gap]) -> list[Item]:
        """Return everything up to `end`: events still missing in that range will never arrive."""
        items = self._drain()
        for gap in gaps:
            while self.last_seq < gap.from_seq - 1:
                self._skip_one(items)
            items.append(gap)
            self.last_seq = gap.to_seq
            items += self._drain()
        while self.last_seq < end:
            self._skip_one(items)
        return items

    def _skip_one(self, items: list[Item]) -> None:
        """Step over the exit, which the server counts and does not list."""
        self.last_seq += 1
        items += self._drain()

    # --- early events -------------------------------------------------------

    def _hold(self, event: ProcessEvent | OutputChunk) -> None:
        self._early[event.seq] = event
        if isinstance(event, OutputEvent | OutputChunk):
            self.held_bytes += len(event.chunk)
        elif isinstance(event, ExitedEvent):
            self._is_exit_placed = True

    def _forget_output(self) -> None:
        """Drop the held output. The server has most of it, and the next read shows what it lacks."""
        self._forgotten_to = max(self._early)
        self._early = {
            seq: event for seq, event in self._early.items() if isinstance(event, ExitedEvent | ClosedEvent)
        }
        self.held_bytes = 0
        self.needs_read = True

    # --- holes --------------------------------------------------------------

    def _gaps(self, reading: ReadResult, end: int) -> list[Gap]:
        holes = list(self._holes(end))
        if reading.exited and not self._is_exit_placed:
            holes = _without_exit(holes, reading)
        gaps = [Gap(first, last, self._size(first, last, holes, reading)) for first, last in holes]
        # A hole of no bytes is the exit alone, between pieces that arrived before the server dropped them.
        return [gap for gap in gaps if gap.size_bytes != 0]

    def _holes(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield the unknown ranges up to `end`, in order."""
        known = self.last_seq
        for seq in sorted(self._early):
            if seq > end:
                break
            if seq > known + 1:
                yield known + 1, seq - 1
            known = seq
        if known < end:
            yield known + 1, end

    def _size(self, first: int, last: int, holes: list[tuple[int, int]], reading: ReadResult) -> int | None:
        """Return the size of a hole, if the server reports the size of a range with no other hole in it."""
        if reading.gaps is UNSET:
            return None
        for told in reading.gaps:
            if told.from_seq <= first and last <= told.to_seq:
                if sum(told.from_seq <= hole[0] <= told.to_seq for hole in holes) > 1:
                    return None
                # Notifications may since have brought part of the dropped output.
                held = (self._early.get(seq) for seq in self._early if told.from_seq <= seq <= told.to_seq)
                return told.bytes_ - sum(
                    len(event.chunk) for event in held if isinstance(event, OutputEvent | OutputChunk)
                )
        return None


def _without_exit(holes: list[tuple[int, int]], reading: ReadResult) -> list[tuple[int, int]]:
    """Return the holes without the number of the exit, where that number is certain."""
    positions = _positions_of_exit(holes, reading)
    if len(positions) != 1 or positions[0][0] != positions[0][1]:
        # The exit lies inside a gap, where its number makes no difference.
        return holes
    exit_seq = positions[0][0]
    return [part for hole in holes for part in _outside(hole, exit_seq, exit_seq)]


def _positions_of_exit(holes: list[tuple[int, int]], reading: ReadResult) -> list[tuple[int, int]]:
    if reading.gaps is not UNSET:
        for gap in reading.gaps:
            holes = [part for hole in holes for part in _outside(hole, gap.from_seq, gap.to_seq)]
        return holes
    # A server that does not report its gaps drops the oldest output first, so a hole after output that it
    # still has can only be the exit.
    return [hole for hole in holes if reading.chunks and hole[0] > reading.chunks[0].seq] or holes


def _outside(hole: tuple[int, int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a hole before and after a range."""
    if hole[0] < first:
        yield hole[0], min(hole[1], first - 1)
    if hole[1] > last:
        yield max(hole[0], last + 1), hole[1]

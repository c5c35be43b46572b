"""Every piece of output once and in order, or a gap in its place, whatever the connection does."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from paddock.client import event_sequence
from paddock.client.event_sequence import EventSequence, Gap, Item, ProcessEvent
from paddock.model.stream import Stream
from paddock.protocol.process import OutputChunk, OutputGap, ReadResult
from paddock.protocol.process_event import ClosedEvent, ExitedEvent, OutputEvent


def output(seq: int, data: bytes = b"x") -> OutputEvent:
    return OutputEvent(process_id="p", seq=seq, stream=Stream.STDOUT, chunk=data)


def chunk(seq: int, data: bytes = b"x") -> OutputChunk:
    return OutputChunk(seq=seq, stream=Stream.STDOUT, chunk=data)


def exited(seq: int) -> ExitedEvent:
    return ExitedEvent(process_id="p", seq=seq, exit_code=0, sandbox_denied=False)


def closed(seq: int) -> ClosedEvent:
    return ClosedEvent(process_id="p", seq=seq)


def reading(
    *chunks: OutputChunk,
    next_seq: int,
    is_exited: bool = False,
    is_closed: bool = False,
    gaps: list[OutputGap] | None = None,
) -> ReadResult:
    """An answer; without `gaps` it is one of the reference server, which does not tell them."""
    return ReadResult(
        chunks=list(chunks),
        next_seq=next_seq,
        exited=is_exited,
        exit_code=0 if is_exited else None,
        closed=is_closed,
        failure=None,
        sandbox_denied=False,
        gaps=UNSET if gaps is None else gaps,
    )


def dropped(from_seq: int, to_seq: int, size_bytes: int) -> OutputGap:
    return OutputGap(from_seq=from_seq, to_seq=to_seq, bytes_=size_bytes)


def cut_after(last_seq: int) -> EventSequence:
    """A sequence that knows everything up to here and was cut off then."""
    line = EventSequence(last_seq)
    line.cut()
    return line


# --- notifications alone -------------------------------------------------


@given(st.permutations(range(1, 30)), st.lists(st.integers(1, 29), max_size=10))
def test_notifications_come_out_once_and_in_order_however_they_arrive(
    arrivals: list[int], repeated: list[int]
) -> None:
    line = EventSequence()
    items: list[Item] = []
    for seq in arrivals + repeated:
        items += line.push(output(seq))
    assert items == [output(seq) for seq in range(1, 30)]
    assert (line.last_seq, line.held_bytes, line.needs_read) == (29, 0, False)


def test_an_event_is_held_back_while_an_earlier_one_is_missing() -> None:
    line = EventSequence()
    assert list(line.push(output(3, b"third"))) == []
    assert list(line.push(output(2, b"second"))) == []
    assert line.held_bytes == 11
    assert list(line.push(output(1))) == [output(1), output(2, b"second"), output(3, b"third")]
    assert line.held_bytes == 0


def test_an_event_that_does_not_come_is_asked_for_and_does_not_make_the_heap_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_sequence, "MAX_EARLY_EVENTS", 3)
    line = EventSequence()
    for seq in (2, 3, 4, 5):
        assert not line.needs_read
        assert list(line.push(output(seq))) == []
    assert line.needs_read
    assert line.held_bytes == 0
    # The answer was made before event 5: what was let go of has to be asked for again.
    assert list(line.merge(reading(chunk(1), chunk(2), chunk(3), chunk(4), next_seq=5))) == [
        chunk(seq) for seq in (1, 2, 3, 4)
    ]
    assert line.needs_read
    assert list(line.merge(reading(chunk(5), next_seq=6))) == [chunk(5)]
    assert not line.needs_read


# --- what was missed -----------------------------------------------------


def test_what_was_missed_comes_before_what_came_meanwhile() -> None:
    line = cut_after(2)
    assert list(line.push(output(5))) == []
    items = line.merge(reading(chunk(3), chunk(4), chunk(5), next_seq=6, gaps=[]))
    assert [item.seq for item in items if not isinstance(item, Gap)] == [3, 4, 5]
    assert list(line.push(output(6))) == [output(6)]


@pytest.mark.parametrize("gaps", [None, []], ids=["reference", "paddock"])
@pytest.mark.parametrize(
    ("chunks", "next_seq", "is_closed"),
    [
        ([], 4, False),
        ([], 5, True),
        ([3], 5, False),
        ([3], 6, True),
        ([4], 5, False),
        ([4], 6, True),
        ([3, 5], 7, True),
    ],
    ids=[
        "exit",
        "exit-close",
        "out-exit",
        "out-exit-close",
        "exit-out",
        "exit-out-close",
        "out-exit-out-close",
    ],
)
def test_the_numbers_of_exit_and_close_are_no_gaps(
    chunks: list[int], next_seq: int, is_closed: bool, gaps: list[OutputGap] | None
) -> None:
    line = cut_after(2)
    items = line.merge(
        reading(*map(chunk, chunks), next_seq=next_seq, is_exited=True, is_closed=is_closed, gaps=gaps)
    )
    assert list(items) == [chunk(seq) for seq in chunks]
    assert line.last_seq == next_seq - 1
    assert line.is_closed is is_closed


def test_a_gap_that_the_server_tells_has_its_size_and_its_place() -> None:
    line = cut_after(2)
    items = line.merge(
        reading(chunk(3), chunk(8), next_seq=11, is_exited=True, is_closed=True, gaps=[dropped(4, 7, 400)])
    )
    assert list(items) == [chunk(3), Gap(4, 7, 400), chunk(8)]
    assert line.is_closed


def test_a_gap_that_the_server_does_not_tell_shows_in_the_numbers() -> None:
    line = cut_after(2)
    items = line.merge(reading(chunk(8), chunk(9), next_seq=12, is_exited=True, is_closed=True))
    assert list(items) == [Gap(3, 7, None), chunk(8), chunk(9)]
    assert line.is_closed


def test_an_exit_that_was_seen_before_is_not_taken_for_a_missing_piece() -> None:
    line = EventSequence()
    line.push(exited(1))
    line.cut()
    items = line.merge(reading(chunk(3), next_seq=4, is_exited=True))
    assert list(items) == [Gap(2, 2, None), chunk(3)]


def test_an_exit_that_came_early_keeps_its_place() -> None:
    line = cut_after(1)
    line.push(exited(4))
    items = line.merge(reading(chunk(2), chunk(3), chunk(5), next_seq=7, is_exited=True, is_closed=True))
    assert list(items) == [chunk(2), chunk(3), chunk(5)]
    assert line.is_closed


def test_what_notifications_brought_before_it_was_dropped_is_not_missing() -> None:
    line = cut_after(2)
    line.push(output(4, b"12345"))
    items = line.merge(reading(chunk(6), next_seq=7, gaps=[dropped(3, 5, 15)]))
    assert list(items) == [Gap(3, 3, None), output(4, b"12345"), Gap(5, 5, None), chunk(6)]

    line = cut_after(2)
    line.push(output(5, b"12345"))
    items = line.merge(reading(chunk(6), next_seq=7, gaps=[dropped(3, 5, 15)]))
    assert list(items) == [Gap(3, 4, 10), output(5, b"12345"), chunk(6)]


def test_an_answer_that_brings_nothing_new_changes_nothing() -> None:
    line = cut_after(2)
    line.push(output(3))
    assert list(line.merge(reading(chunk(3), next_seq=4, gaps=[]))) == []
    assert (line.last_seq, line.needs_read) == (3, False)


def test_a_process_that_was_lost_on_the_server_is_not_closed() -> None:
    line = cut_after(0)
    items = line.merge(reading(chunk(1), next_seq=2, is_closed=True, gaps=[]))
    assert list(items) == [chunk(1)]
    assert not line.is_closed


# --- everything at once --------------------------------------------------


@dataclass(frozen=True)
class Flavour:
    """How a server behaves; the reference server tells no gaps and swaps what it sends."""

    tells_gaps: bool
    reorders: bool
    kept_head: int
    kept_tail: int


class ModelServer:
    """Numbers events and retains a bounded number of pieces, as `process/read` shows them."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.events: list[ProcessEvent] = []
        self.retained: list[OutputEvent] = []
        self.dropped: dict[int, OutputEvent] = {}

    def emit(self, kind: str) -> ProcessEvent:
        seq = len(self.events) + 1
        match kind:
            case "exit":
                event: ProcessEvent = exited(seq)
            case "close":
                event = closed(seq)
            case _:
                event = output(seq, kind.encode())
                self.retained.append(event)
                while len(self.retained) > self.flavour.kept_head + self.flavour.kept_tail:
                    oldest = self.retained.pop(self.flavour.kept_head)
                    self.dropped[oldest.seq] = oldest
        self.events.append(event)
        return event

    def read(self, after_seq: int, max_pieces: int | None) -> ReadResult:
        found = [event for event in self.retained if event.seq > after_seq][:max_pieces]
        next_seq = len(self.events) + 1
        if max_pieces is not None and found:
            next_seq = found[-1].seq + 1
        missing = [event for seq, event in sorted(self.dropped.items()) if after_seq < seq < next_seq]
        gaps: list[OutputGap] | None = None
        if self.flavour.tells_gaps:
            size_bytes = sum(len(event.chunk) for event in missing)
            gaps = [dropped(missing[0].seq, missing[-1].seq, size_bytes)] if missing else []
        return reading(
            *(chunk(event.seq, event.chunk) for event in found),
            next_seq=next_seq,
            is_exited=any(isinstance(event, ExitedEvent) for event in self.events),
            is_closed=any(isinstance(event, ClosedEvent) for event in self.events),
            gaps=gaps,
        )


class Play:
    """A server, a connection that comes and goes, and the event sequence at its end."""

    def __init__(self, flavour: Flavour) -> None:
        self.server = ModelServer(flavour)
        self.line = EventSequence()
        self.items: list[Item] = []
        self._is_connected = True
        self._on_its_way: deque[ProcessEvent | tuple[ReadResult, bool]] = deque()
        self._asked: int | None = None
        self._is_asking = False
        self._is_paging = False

    def emit(self, kind: str) -> None:
        event = self.server.emit(kind)
        if self._is_connected:
            self._on_its_way.append(event)

    def serve(self) -> None:
        """The server reads the request, if there is one on its way."""
        if self._asked is not None:
            answer = self.server.read(self._asked, 2 if self._is_paging else None)
            self._on_its_way.append((answer, self._is_paging))
            self._asked = None

    def deliver(self, position: int) -> None:
        if not self._on_its_way:
            return
        if self.server.flavour.reorders:
            self._on_its_way.rotate(-(position % min(3, len(self._on_its_way))))
            arrived = self._on_its_way.popleft()
            self._on_its_way.rotate(position % 3 if len(self._on_its_way) > 2 else 0)
        else:
            arrived = self._on_its_way.popleft()
        if isinstance(arrived, tuple):
            self._is_asking = False
            self.items += self.line.merge(arrived[0], is_page=arrived[1])
        else:
            self.items += self.line.push(arrived)
        self.ask()

    def cut(self) -> None:
        flavour = self.server.flavour
        self._is_paging = self._is_asking and flavour.tells_gaps and not flavour.reorders
        self._is_connected = self._is_asking = False
        self._on_its_way.clear()
        self._asked = None
        self.line.cut()

    def resume(self) -> None:
        self._is_connected = True
        self.ask()

    def ask(self) -> None:
        if self._is_connected and self.line.needs_read and not self._is_asking:
            self._is_asking = True
            self._asked = self.line.last_seq

    def finish(self) -> None:
        self.resume()
        while self._asked is not None or self._on_its_way:
            self.serve()
            self.deliver(0)


FLAVOURS = st.builds(
    Flavour,
    tells_gaps=st.just(True),
    reorders=st.booleans(),
    kept_head=st.integers(0, 3),
    kept_tail=st.integers(1, 6),
) | st.builds(
    Flavour,
    tells_gaps=st.just(False),
    reorders=st.booleans(),
    kept_head=st.just(0),
    kept_tail=st.integers(1, 6) | st.just(100),
)
STEPS = st.lists(
    st.sampled_from(["emit", "emit", "serve", "cut", "resume"]) | st.integers(0, 2), min_size=5, max_size=80
)


@settings(max_examples=500)
@given(FLAVOURS, STEPS, st.integers(0, 20), st.integers(0, 8), st.integers(2, 40))
def test_every_piece_comes_once_and_in_order_or_a_gap_says_so(
    flavour: Flavour, steps: list[str | int], before_exit: int, after_exit: int, max_early: int
) -> None:
    kinds = deque([f"<{n}>" for n in range(before_exit)])
    kinds += ["exit", *(f"[{n}]" for n in range(after_exit)), "close"]
    play = Play(flavour)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_sequence, "MAX_EARLY_EVENTS", max_early)
        for step in steps:
            match step:
                case "emit":
                    if kinds:
                        play.emit(kinds.popleft())
                case "serve":
                    play.serve()
                case "cut":
                    play.cut()
                case "resume":
                    play.resume()
                case int():
                    play.deliver(step)
        while kinds:
            play.emit(kinds.popleft())
        play.finish()

    assert play.line.is_closed
    assert play.line.held_bytes == 0
    check(play)


def check(play: Play) -> None:
    written = {event.seq: event for event in play.server.events if isinstance(event, OutputEvent)}
    position = 0
    for item in play.items:
        if isinstance(item, Gap):
            inside = [event for seq, event in written.items() if item.from_seq <= seq <= item.to_seq]
            assert item.from_seq > position
            # The server really had dropped it all; only the exit may be in there besides.
            assert {event.seq for event in inside} <= play.server.dropped.keys()
            assert item.to_seq - item.from_seq + 1 - len(inside) <= 1
            if play.server.flavour.tells_gaps:
                assert inside
                assert item.size_bytes is None or item.size_bytes >= sum(len(e.chunk) for e in inside)
            skipped, position = range(position + 1, item.from_seq), item.to_seq
        else:
            assert item.chunk == written[item.seq].chunk
            skipped, position = range(position + 1, item.seq), item.seq
        assert not written.keys() & set(skipped)
    assert not any(seq > position for seq in written)

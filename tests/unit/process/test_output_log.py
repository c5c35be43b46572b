"""The output log against a plain model that never forgets."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from paddock.model.stream import Stream
from paddock.process.output_log import BYTES_PER_RETAINED_CHUNK, Chunk, OutputLog, chunk_limit_for

LIMIT = 4096


def filled(count: int, size: int = 100, limit: int = LIMIT) -> OutputLog:
    log = OutputLog(limit)
    for index in range(count):
        log.append(Stream.STDOUT, bytes([index % 256]) * size)
    return log


def test_events_are_numbered_from_one_without_gaps() -> None:
    log = OutputLog(LIMIT)

    numbers = [log.append(Stream.STDOUT, b"a").seq, log.take_seq(), log.append(Stream.STDERR, b"b").seq]

    assert numbers == [1, 2, 3]
    assert log.next_seq == 4


def test_reader_that_reconnects_learns_how_much_it_missed() -> None:
    log = filled(100)

    reading = log.read(after_seq=0, limit_bytes=None)

    assert reading.gap is not None
    kept = sum(len(chunk.data) for chunk in reading.chunks)
    assert kept + reading.gap.size_bytes == 100 * 100
    numbers = [chunk.seq for chunk in reading.chunks]
    missing = [seq for seq in range(1, 101) if seq not in numbers]
    assert missing == list(range(reading.gap.from_seq, reading.gap.to_seq + 1))


def test_reader_inside_the_gap_is_told_only_what_it_has_not_seen() -> None:
    log = filled(100)
    whole = log.read(0, None).gap
    assert whole is not None

    part = log.read(whole.from_seq + 4, None).gap

    assert part is not None
    assert (part.from_seq, part.to_seq) == (whole.from_seq + 5, whole.to_seq)
    assert part.size_bytes == whole.size_bytes - 500


def test_reader_that_saw_everything_dropped_is_told_of_no_gap() -> None:
    log = filled(100)
    whole = log.read(0, None).gap
    assert whole is not None

    assert log.read(whole.to_seq, None).gap is None


def test_reader_that_stops_before_the_gap_is_not_told_of_it_yet() -> None:
    assert filled(100).read(after_seq=0, limit_bytes=100).gap is None


def test_head_and_newest_tail_are_kept() -> None:
    numbers = [chunk.seq for chunk in filled(100, size=200).read(0, None).chunks]

    assert numbers == [*range(1, 11), *range(91, 101)]


def test_first_chunk_is_returned_even_if_it_is_over_the_limit() -> None:
    reading = filled(3).read(after_seq=1, limit_bytes=0)

    assert [chunk.seq for chunk in reading.chunks] == [2]
    assert reading.next_seq == 3


def test_whole_chunks_are_returned_while_the_total_stays_within_the_limit() -> None:
    reading = filled(5).read(after_seq=0, limit_bytes=250)

    assert [chunk.seq for chunk in reading.chunks] == [1, 2]
    assert reading.next_seq == 3


def test_next_number_counts_events_without_output() -> None:
    log = filled(2)
    log.take_seq()

    assert log.read(0, None).next_seq == 4
    assert log.read(2, 10).next_seq == 4


def test_streams_are_kept_apart_and_their_losses_counted_apart() -> None:
    log = OutputLog(LIMIT)
    for _ in range(100):
        log.append(Stream.STDOUT, b"o" * 90)
        log.append(Stream.STDERR, b"e" * 10)

    stdout, stderr = log.kept(Stream.STDOUT), log.kept(Stream.STDERR)

    assert set(stdout.data) == {ord("o")}
    assert set(stderr.data) == {ord("e")}
    assert len(stdout.data) + stdout.omitted_bytes == 9000
    assert len(stderr.data) + stderr.omitted_bytes == 1000


@pytest.mark.unmeasured
def test_byte_by_byte_output_does_not_cost_more_chunks_than_the_bound_pays_for() -> None:
    log = filled(100_000, size=1, limit=LIMIT)

    assert len(log.read(0, None).chunks) <= LIMIT // BYTES_PER_RETAINED_CHUNK


def test_a_very_long_gap_is_never_reported_too_small() -> None:
    log = filled(20_000)
    whole = log.read(0, None).gap
    assert whole is not None

    for position in range(whole.from_seq, whole.to_seq, 997):
        gap = log.read(position, None).gap
        assert gap is not None
        assert gap.from_seq == position + 1
        assert gap.size_bytes >= (whole.to_seq - position) * 100


@given(st.integers(min_value=1, max_value=1 << 31))
def test_read_size_suits_every_bound(limit: int) -> None:
    assert 1 <= chunk_limit_for(limit) <= 64 * 1024


@dataclass
class Model:
    """Everything that was ever appended."""

    chunks: list[Chunk] = field(default_factory=list)


class LogAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log = OutputLog(LIMIT)
        self.model = Model()

    @rule(stream=st.sampled_from(Stream), size=st.integers(1, chunk_limit_for(LIMIT)))
    def append(self, stream: Stream, size: int) -> None:
        data = bytes(index % 251 for index in range(size))
        self.model.chunks.append(self.log.append(stream, data))

    @rule()
    def number_an_event(self) -> None:
        before = self.log.next_seq
        assert self.log.take_seq() == before

    @rule(after=st.integers(0, 200), limit=st.none() | st.integers(0, 2000))
    def read(self, after: int, limit: int | None) -> None:
        reading = self.log.read(after, limit)
        expected = [chunk for chunk in self.model.chunks if after < chunk.seq < reading.next_seq]
        got = {chunk.seq for chunk in reading.chunks}
        lost = [chunk for chunk in expected if chunk.seq not in got]
        assert [chunk for chunk in expected if chunk.seq in got] == reading.chunks
        if reading.gap is None:
            assert not lost
        else:
            assert all(reading.gap.from_seq <= chunk.seq <= reading.gap.to_seq for chunk in lost)
            assert reading.gap.size_bytes == sum(len(chunk.data) for chunk in lost)
        assert self.log.has_after(after) == bool(reading.chunks)

    @invariant()
    def stays_within_the_bound(self) -> None:
        assert self.log.retained_bytes <= LIMIT

    @invariant()
    def accounts_for_every_byte(self) -> None:
        for stream in Stream:
            kept = self.log.kept(stream)
            total = sum(len(chunk.data) for chunk in self.model.chunks if chunk.stream is stream)
            assert len(kept.data) + kept.omitted_bytes == total


TestLogAgainstModel = LogAgainstModel.TestCase
TestLogAgainstModel.settings = settings(max_examples=40)

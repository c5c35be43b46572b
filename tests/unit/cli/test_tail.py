"""The newest part of some output."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.tail import ByteTail, LineTail, Piece
from paddock.model.stream import Stream
from paddock.protocol.process import OutputChunk, OutputGap

GAP = OutputGap(from_seq=50, to_seq=60, bytes_=1000)

chunks = st.lists(st.text("ab\n", max_size=6).map(str.encode), max_size=12)


def chunk(data: bytes, seq: int = 1) -> OutputChunk:
    return OutputChunk(seq=seq, stream=Stream.STDOUT, chunk=data)


def filled(tail: LineTail | ByteTail, pieces: Iterable[bytes | OutputGap]) -> LineTail | ByteTail:
    for piece in pieces:
        tail.add(chunk(piece) if isinstance(piece, bytes) else piece)
    return tail


def text(pieces: Iterable[Piece]) -> bytes:
    return b"".join(piece.chunk for piece in pieces if isinstance(piece, OutputChunk))


@given(chunks, st.integers(0, 8))
def test_the_last_lines_are_those_that_split_lines_gives(pieces: list[bytes], count: int) -> None:
    lines = b"".join(pieces).splitlines(keepends=True)
    assert text(filled(LineTail(count), pieces)) == b"".join(lines[len(lines) - min(count, len(lines)) :])


@given(chunks, st.integers(0, 20))
def test_the_last_bytes_are_the_last_bytes(pieces: list[bytes], count: int) -> None:
    whole = b"".join(pieces)
    assert text(filled(ByteTail(count), pieces)) == whole[len(whole) - min(count, len(whole)) :]


def test_a_gap_among_the_last_lines_is_told_in_its_place_and_an_earlier_one_is_not() -> None:
    pieces: list[bytes | OutputGap] = [b"one\n", GAP, b"two\nthree\n"]
    assert list(filled(LineTail(3), pieces)) == [chunk(b"one\n"), GAP, chunk(b"two\nthree\n")]
    assert list(filled(LineTail(1), pieces)) == [chunk(b"three\n")]


def test_a_gap_does_not_hide_what_comes_after_it() -> None:
    assert list(filled(ByteTail(3), [b"abc", GAP, b"def"])) == [chunk(b"def")]


def test_no_more_is_held_than_the_answer_needs() -> None:
    tail = LineTail(2)
    for _ in range(10_000):
        tail.add(chunk(b"line\n"))
    assert len(tail._pieces) == 3

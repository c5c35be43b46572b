"""Messages cut out of a byte stream."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import MessageTooLarge
from paddock.transport.lines import LineSplitter

LINE = st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"x").replace(b"\r", b"y"))
ENDING = st.sampled_from([b"\n", b"\r\n"])


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Cut a stream into pieces of the given sizes, repeated as often as needed."""
    pieces, position, turn = [], 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        pieces.append(stream[position : position + size])
        position += size
        turn += 1
    return pieces


@given(
    lines=st.lists(st.tuples(LINE, ENDING)),
    sizes=st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=5),
)
def test_the_lines_are_the_same_however_the_stream_is_cut(
    lines: list[tuple[bytes, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(line + ending for line, ending in lines)
    splitter = LineSplitter(max_line_bytes=20)
    found = [line for piece in cut(stream, sizes) for line in splitter.feed(piece)]
    assert found == [line for line, _ in lines if line and not line.isspace()]
    assert not splitter.is_inside_line


@given(
    excess=st.integers(min_value=1, max_value=5),
    ending=ENDING,
    sizes=st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=5),
)
def test_a_line_over_the_limit_is_refused_however_the_stream_is_cut(
    excess: int, ending: bytes, sizes: list[int]
) -> None:
    splitter = LineSplitter(max_line_bytes=10)
    pieces = cut(b"ok\n" + b"x" * (10 + excess) + ending, sizes)
    with pytest.raises(MessageTooLarge, match="limit of 10 bytes"):
        deque(map(splitter.feed, pieces))


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_line_of_exactly_the_limit_passes_with_either_ending(ending: bytes) -> None:
    splitter = LineSplitter(max_line_bytes=10)
    assert splitter.feed(b"x" * 10 + ending[:-1]) == []
    assert splitter.feed(ending[-1:]) == [b"x" * 10]


def test_an_endless_line_is_refused_before_it_ends() -> None:
    splitter = LineSplitter(max_line_bytes=10)
    with pytest.raises(MessageTooLarge):
        splitter.feed(b"x" * 12)


def test_blank_lines_are_skipped() -> None:
    assert LineSplitter(100).feed(b"\n\r\n \t\none\n\n\r\ntwo\n") == [b"one", b"two"]


@given(
    lines=st.lists(st.tuples(LINE, ENDING)),
    sizes=st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=5),
    limit=st.integers(min_value=1, max_value=4),
)
def test_lines_are_the_same_however_many_are_taken_at_once(
    lines: list[tuple[bytes, bytes]], sizes: list[int], limit: int
) -> None:
    stream = b"".join(line + ending for line, ending in lines)
    splitter = LineSplitter(max_line_bytes=20)
    found: list[bytes] = []
    for piece in cut(stream, sizes):
        splitter.add(piece)
        while splitter.has_more:
            taken = splitter.take(limit)
            assert len(taken) <= limit
            found += taken
    assert found == [line for line, _ in lines if line and not line.isspace()]
    assert splitter.held_bytes == 0


def test_blank_lines_count_among_those_that_are_taken_at_once() -> None:
    splitter = LineSplitter(100)
    splitter.add(b"\n" * 10 + b"one\n")
    assert splitter.take(10) == []
    assert splitter.has_more
    assert splitter.take(10) == [b"one"]
    assert not splitter.has_more


def test_only_one_carriage_return_belongs_to_the_ending() -> None:
    assert LineSplitter(100).feed(b"one\r\r\n") == [b"one\r"]


def test_an_unfinished_line_is_noticed_and_blanks_are_not() -> None:
    splitter = LineSplitter(100)
    splitter.feed(b"one\n  ")
    assert not splitter.is_inside_line
    splitter.feed(b"{")
    assert splitter.is_inside_line


class CountingBytes(bytes):
    """Counts how often it is searched."""

    searched = 0

    def split(self, *args: object, **kwargs: object) -> list[bytes]:
        """Count, then split."""
        CountingBytes.searched += len(self)
        return bytes(self).split(b"\n")


def test_bytes_of_a_long_line_are_searched_once() -> None:
    CountingBytes.searched = 0
    splitter = LineSplitter(64 << 20)
    piece = CountingBytes(b"x" * 1024)
    for _ in range(4096):
        assert splitter.feed(piece) == []
    [line] = splitter.feed(CountingBytes(b"\n"))
    assert len(line) == 4096 * 1024
    assert CountingBytes.searched == 4096 * 1024 + 1

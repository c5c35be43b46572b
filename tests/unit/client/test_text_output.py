"""Output as text: pieces may end anywhere."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from paddock.client.text_output import LINE_LIMIT_BYTES, LineBuffer, PatternSearch, TextDecoder
from paddock.model.stream import Stream

OUT, ERR = Stream.STDOUT, Stream.STDERR


@st.composite
def split_bytes(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes in pieces that end anywhere."""
    whole = draw(data)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def lines_of(pieces: list[tuple[Stream, bytes]]) -> list[str]:
    buffer = LineBuffer()
    lines = []
    for stream, data in pieces:
        buffer.feed(stream, data)
        while (line := buffer.take()) is not None:
            lines.append(str(line))
    return lines + [str(line) for line in buffer.take_all()]


@given(split_bytes(st.text().map(str.encode)))
def test_text_is_the_same_wherever_its_pieces_end(pieces: list[bytes]) -> None:
    decoder = TextDecoder()
    text = "".join(decoder.feed(OUT, piece) for piece in pieces) + decoder.finish()
    assert text == b"".join(pieces).decode()


@given(split_bytes(st.binary(max_size=64)))
def test_bytes_that_are_no_text_become_replacement_characters(pieces: list[bytes]) -> None:
    decoder = TextDecoder()
    text = "".join(decoder.feed(OUT, piece) for piece in pieces) + decoder.finish()
    assert text == b"".join(pieces).decode("utf-8", "replace")


def test_a_character_of_stdout_is_whole_though_stderr_comes_between_its_bytes() -> None:
    decoder = TextDecoder()
    assert decoder.feed(OUT, b"\xc3") == ""
    assert decoder.feed(ERR, b"x") == "x"
    assert decoder.feed(OUT, b"\xa4") == "ä"


@given(split_bytes(st.text(alphabet="aä\n\r").map(str.encode)))
def test_lines_are_the_same_wherever_pieces_end(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).decode()
    expected = [line.removesuffix("\r") for line in whole.split("\n")]
    # What follows the last line end is a line only if there is something.
    if not whole.split("\n")[-1]:
        expected.pop()
    assert lines_of([(OUT, piece) for piece in pieces]) == expected


def test_lines_of_both_streams_come_whole() -> None:
    assert lines_of([(OUT, b"on"), (ERR, b"two\n"), (OUT, b"e\nlast")]) == ["two", "one", "last"]


def test_a_line_without_an_end_comes_in_parts_that_split_no_character() -> None:
    text = "x" + "ä" * LINE_LIMIT_BYTES
    lines = lines_of([(OUT, text.encode())])
    assert "".join(lines) == text
    assert len(lines) == 3


@given(split_bytes(st.binary(max_size=32)), st.binary(max_size=8))
def test_a_search_tells_what_is_behind_the_match_to_the_byte(pieces: list[bytes], behind: bytes) -> None:
    before = b"".join(pieces).replace(b"$", b"")
    search = PatternSearch(re.escape("$ "))
    found = None
    for piece in (before[: len(before) // 2], before[len(before) // 2 :]):
        assert search.feed(piece) is None
    found = search.feed(b"$ " + behind)
    assert found is not None
    text, unused_bytes = found
    assert unused_bytes == len(behind)
    assert text == (before + b"$ ").decode("utf-8", "replace")


def test_a_match_may_end_before_the_last_piece() -> None:
    search = PatternSearch("a(?=b)")
    assert search.feed(b"xa") is None
    assert search.feed("bä".encode()) == ("xa", 3)

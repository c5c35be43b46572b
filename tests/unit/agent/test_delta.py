"""Output in pieces for an event stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.agent import delta
from paddock.agent.delta import DELTA_BYTES, DELTAS_LIMIT, DeltaSplitter


def pieces_of(parts: list[bytes]) -> list[bytes]:
    splitter = DeltaSplitter()
    found = [piece for part in parts for piece in splitter.feed(part)]
    return [*found, *splitter.finish()]


@given(st.lists(st.binary(max_size=40)))
def test_nothing_is_lost_or_reordered(parts: list[bytes]) -> None:
    assert b"".join(pieces_of(parts)) == b"".join(parts)


@given(st.text(max_size=60), st.integers(min_value=1, max_value=5))
def test_no_character_is_split(text: str, size: int) -> None:
    data = text.encode("utf-8", "ignore")
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    for piece in pieces_of(parts):
        piece.decode()


def test_large_output_comes_in_bounded_pieces() -> None:
    data = "€".encode() * 10_000
    pieces = pieces_of([data])
    assert max(map(len, pieces)) <= DELTA_BYTES
    assert b"".join(pieces) == data
    for piece in pieces:
        piece.decode()


def test_number_of_pieces_is_bounded_and_the_rest_is_counted() -> None:
    splitter = DeltaSplitter()
    found = [piece for _ in range(DELTAS_LIMIT + 5) for piece in splitter.feed(b"ab")]
    assert len(found) == delta.DELTAS_LIMIT
    assert splitter.unsent_bytes == 10


def test_unfinished_character_is_sent_in_the_end() -> None:
    assert pieces_of([b"a\xe2\x82"]) == [b"a", b"\xe2\x82"]

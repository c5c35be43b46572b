"""Output that keeps its beginning and its end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.agent.head_tail import HeadTail


def collected(pieces: list[bytes], limit_bytes: int) -> HeadTail:
    buffer = HeadTail(limit_bytes)
    for piece in pieces:
        buffer.add(piece)
    return buffer


@given(st.lists(st.binary(max_size=20)), st.integers(min_value=0, max_value=40))
def test_head_and_tail_are_the_ends_of_what_was_added(pieces: list[bytes], limit_bytes: int) -> None:
    everything = b"".join(pieces)
    buffer = collected(pieces, limit_bytes)
    assert buffer.total_bytes == len(everything)
    assert len(buffer.head) + len(buffer.tail) == min(limit_bytes, len(everything))
    assert everything.startswith(buffer.head)
    assert everything.endswith(buffer.tail)
    assert buffer.omitted_bytes == max(0, len(everything) - limit_bytes)


@given(st.lists(st.binary(max_size=20)))
def test_how_output_was_cut_into_pieces_makes_no_difference(pieces: list[bytes]) -> None:
    whole = collected([b"".join(pieces)], 16)
    parts = collected(pieces, 16)
    assert (parts.head, parts.tail, parts.omitted_bytes) == (whole.head, whole.tail, whole.omitted_bytes)


def test_drained_buffer_starts_again() -> None:
    buffer = collected([b"0123456789"], 4)
    drained = buffer.drain()
    assert (drained.head, drained.tail, drained.omitted_bytes) == (b"01", b"89", 6)
    assert (buffer.head, buffer.tail, buffer.total_bytes) == (b"", b"", 0)
    buffer.add(b"new")
    assert (buffer.head, buffer.tail) == (b"ne", b"w")
    assert drained.head == b"01"

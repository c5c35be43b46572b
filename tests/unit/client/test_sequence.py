from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.client.sequence import Sequencer
from paddock.errors import ProtocolViolation


@st.composite
def deliveries(draw: st.DrawFn) -> list[int]:
    """The numbers 1..n in any order, some of them more than once."""
    numbers = list(range(1, draw(st.integers(0, 40)) + 1))
    repeated = draw(st.lists(st.sampled_from(numbers), max_size=10)) if numbers else []
    return draw(st.permutations(numbers + repeated))


@given(deliveries())
def test_every_event_comes_out_once_and_in_order_however_they_arrive(arrivals: list[int]) -> None:
    sequencer: Sequencer[str] = Sequencer()

    given_out = [event for seq in arrivals for event in sequencer.push(seq, f"event {seq}")]

    assert given_out == [f"event {seq}" for seq in sorted(set(arrivals))]
    assert sequencer.last_seq == max(arrivals, default=0)


@given(deliveries())
def test_an_event_is_held_back_exactly_as_long_as_an_earlier_one_is_missing(arrivals: list[int]) -> None:
    sequencer: Sequencer[int] = Sequencer()
    arrived: set[int] = set()
    given_out = 0

    for seq in arrivals:
        arrived.add(seq)
        given_out += len(sequencer.push(seq, seq))
        complete = next(n for n in range(1, len(arrived) + 2) if n not in arrived) - 1
        assert given_out == complete == sequencer.last_seq


def test_an_event_that_never_comes_is_a_violation_and_not_a_growing_heap() -> None:
    sequencer: Sequencer[int] = Sequencer(max_early=3)
    for seq in (2, 3, 4):
        assert sequencer.push(seq, seq) == []

    with pytest.raises(ProtocolViolation, match="event 1 of a process is missing"):
        sequencer.push(5, 5)

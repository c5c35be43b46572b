"""What is noted of a traced command, and how much."""

from __future__ import annotations

from paddock.model.denial import Denial, DenialKind
from paddock.sandbox.trace import DENIALS_LIMIT, Notes, Trace


def denial(number: int) -> Denial:
    return Denial(DenialKind.WRITE, f"/{number}", ":root = read", is_certain=True)


def test_each_denial_is_noted_once_and_in_the_order_of_the_first() -> None:
    notes = Notes()
    for number in (2, 1, 2, 1):
        notes.add(denial(number))
    assert notes.trace() == Trace((denial(2), denial(1)))


def test_what_has_no_room_is_counted() -> None:
    notes = Notes()
    for number in range(DENIALS_LIMIT + 7):
        notes.add(denial(number))
    notes.add(denial(0))
    trace = notes.trace()
    assert (len(trace.denials), trace.more) == (DENIALS_LIMIT, 7)

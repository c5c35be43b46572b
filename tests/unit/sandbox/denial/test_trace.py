"""What is noted of a traced command, and how much."""

from __future__ import annotations

from msgspec.structs import replace

from paddock.model.denial import Denial, DenialKind, Trace
from paddock.sandbox.denial.trace import DENIALS_LIMIT, Notes


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


def test_grant_is_enough_for_every_attempt_at_the_same_path() -> None:
    notes = Notes()
    for grant in ("/etc/x", "/etc"):
        notes.add(replace(denial(1), grant=grant))
        notes.add(replace(denial(2), grant=grant))
    notes.add(denial(2))
    assert [noted.grant for noted in notes.trace().denials] == ["/etc", None]

"""THE list of what Paddock's WebSockets deliberately do otherwise than `websocket_cases` asks for.

Each entry names the cases that do not hold, what holds in their place, and why. A case that is not listed
must hold as it is written, and a case that is listed and holds all the same is an error: the tests see to
both.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.conformance.websocket_cases import (
    BINARY,
    NORMAL,
    NOT_UTF8,
    TEXT,
    Answer,
    Case,
    Turn,
    close_frame,
)


@dataclass(frozen=True, slots=True)
class Deviation:
    """For the cases whose numbers match `pattern` and that are `concerned`, Paddock does `instead`."""

    pattern: str
    concerned: Callable[[Case], bool]
    instead: Callable[[Case], Case]
    reason: str

    def applies_to(self, case: Case) -> bool:
        """Tell whether this case does not hold as written."""
        return re.fullmatch(self.pattern, case.number) is not None and self.concerned(case)


def _has_binary_answers(case: Case) -> bool:
    return any(answer.opcode == BINARY for answer in case.answers)


def _must_fail_for_utf8(case: Case) -> bool:
    return case.codes == {NOT_UTF8}


def _answered_as_text(case: Case) -> Case:
    def as_text(turn: Turn) -> Turn:
        return dataclasses.replace(
            turn, answers=tuple(Answer(TEXT, answer.payload) for answer in turn.answers)
        )

    return dataclasses.replace(case, turns=tuple(map(as_text, case.turns)))


def _echoed_as_it_is(case: Case) -> Case:
    [turn] = case.turns
    message = b"".join(frame.payload for frame in turn.frames)
    echoed = dataclasses.replace(turn, answers=(Answer(TEXT, message),))
    bye = Turn((close_frame(NORMAL),))
    return Case(case.number, (echoed, bye))


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        r"1\.2\.\d|9\.[2468]\.\d",
        _has_binary_answers,
        _answered_as_text,
        "a binary message is taken for the JSON that it holds, and what Paddock sends is always text: the "
        "peer's clients send either kind, and expect text",
    ),
    Deviation(
        r"6\.\d+\.\d+",
        _must_fail_for_utf8,
        _echoed_as_it_is,
        "the transport hands text up as bytes: the JSON decoder checks the UTF-8 of whatever it decodes, "
        "and answers with an error; a second pass over every message would cost as much as the first",
    ),
)


def deviation_of(case: Case) -> Deviation | None:
    """Give the entry that concerns this case."""
    for deviation in DEVIATIONS:
        if deviation.applies_to(case):
            return deviation
    return None


def with_deviations(case: Case) -> Case:
    """Give the case as Paddock holds it."""
    deviation = deviation_of(case)
    return case if deviation is None else deviation.instead(case)

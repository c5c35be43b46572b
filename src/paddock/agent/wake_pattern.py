"""Regular expressions that a model waits for, such as can't hold up the event loop. Pure.

They are looked for in every line of output while other commands run, by an engine that tries again and again:
from every position of the line, with every length of each repetition and with each way through options and
alternatives. So only so much of a line counts that all of this together stays below `STEPS_LIMIT`, and an
expression for which little of a line is left is refused.
"""

from __future__ import annotations

import re
from math import factorial
from typing import Final

from msgspec import Struct

from paddock.fs.pattern import compile_pattern

STEPS_LIMIT: Final = 2_000_000
"""Steps for one line: about ten milliseconds."""
LINE_BYTES: Final = 500
"""How much of a line, from its beginning, the search looks at."""
LEAST_LINE_BYTES: Final = 100
"""How much of a line every accepted expression can search; such an expression has up to two repetitions."""

_OPAQUE: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_TOKEN: Final = re.compile(r"\((?:\?:)?|\)|\||(?P<quantifier>[*+?]|\{\d+(?:,\d*)?\})\??")


class WakePattern(Struct, frozen=True):
    """An expression, and how much of a line is looked at."""

    expression: re.Pattern[bytes]
    line_bytes: int


def compile_wake(pattern: str) -> WakePattern:
    """Return the expression, for single lines. Raises ValueError that says what is wrong with it."""
    compiled = compile_pattern(pattern, is_regex=True, is_case_sensitive=True)
    line_bytes = _line_bytes(*_choices(_OPAQUE.sub("x", pattern)))
    if line_bytes < LEAST_LINE_BYTES:
        raise ValueError("it has too many repetitions, optional parts and alternatives together; simplify it")
    return WakePattern(compiled, line_bytes)


def _line_bytes(repetitions: int, ways: int) -> int:
    """Return how much of a line is looked at in time.

    A position to begin at and the end of each repetition are `repetitions + 1` positions in order, one of
    about n ** (repetitions + 1) / (repetitions + 1)! for n bytes.
    """
    positions = repetitions + 1
    # Whole numbers, and no root of one too large for a float.
    steps = STEPS_LIMIT * factorial(min(positions, 20)) // ways
    return next((size for size in range(LINE_BYTES, 0, -1) if size**positions <= steps), 0)


def _choices(pattern: str) -> tuple[int, int]:
    """Return the repetitions of an expression, and the ways through its options and alternatives."""
    repetitions = 0
    groups = [_Ways()]
    for token in _TOKEN.finditer(pattern):
        match token[0][0]:
            case "(":
                groups.append(_Ways())
            case ")":
                closed = groups.pop()
                groups[-1].follow(closed.total)
            case "|":
                groups[-1].branch()
            case "?":
                groups[-1].follow(2)
            case _:
                repetitions += 1
    return repetitions, groups[0].total


class _Ways:
    """Counts the ways through a group: those of parts in a row multiply, those of alternatives add up."""

    def __init__(self) -> None:
        self._before = 0
        self._branch = 1

    @property
    def total(self) -> int:
        return self._before + self._branch

    def follow(self, ways: int) -> None:
        # Beyond the limit the number does not matter, only that it stays small enough to count with.
        self._branch = min(self._branch * ways, STEPS_LIMIT + 1)

    def branch(self) -> None:
        self._before, self._branch = self.total, 1


class LineMatcher:
    """Looks for an expression in output that comes in pieces, in each line once."""

    def __init__(self, pattern: WakePattern) -> None:
        self._pattern = pattern
        self._line = b""

    def feed(self, data: bytes) -> bool:
        """Return whether a line matches that ended with this piece, or is not at its end yet."""
        lines = (self._line + data).split(b"\n")
        limit = self._pattern.line_bytes
        self._line = lines[-1][:limit]
        return any(self._pattern.expression.search(line[:limit].rstrip(b"\r")) for line in lines)

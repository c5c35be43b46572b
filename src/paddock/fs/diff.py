"""The difference between two versions of a file, as a unified diff. Pure.

Lines end with a newline and nothing else; bytes that are not UTF-8 are shown with replacement characters. The
common beginning and end are set aside first. If what is left is too long to compare line by line, or takes
too many steps, the diff replaces it as a whole, which is correct but longer. What is too long is handled in
pieces and never as a list of its lines, of which a file may have millions.
"""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

COMPARED_LINES = 2000
"""Limit for the lines of each version."""

COMPARED_STEPS = COMPARED_LINES * COMPARED_LINES
"""Limit for the steps of a comparison, which take half a second together. It is enough if each line occurs
once; a program of which every third line has changed takes a third. Many equal lines would take a thousand
times as many."""

CONTEXT_LINES = 3

PIECE_BYTES = 64 * 1024
"""Bytes to look at in one step: the interpreter serves no other thread meanwhile."""


def unified_diff(path: str, old: bytes, new: bytes) -> str:
    """Return the diff from `old` to `new`; empty if they are the same."""
    head = _same_head(old, new)
    if head == len(old) == len(new):
        return ""
    start = old.rfind(b"\n", 0, head) + 1
    old_end, new_end = _changed_ends(old, new, start)
    above, below = _lines_before(old, start), _lines_after(old, old_end)
    first_line = _count(old, 0, start) - len(above)
    hunks = None
    if max(_count(old, start, old_end), _count(new, start, new_end)) < COMPARED_LINES:
        before = [*above, *_lines(old[start:old_end]), *below]
        after = [*above, *_lines(new[start:new_end]), *below]
        hunks = _compared(before, after, first_line)
    if hunks is None:
        hunks = _replaced(old[start:old_end], new[start:new_end], above, below, first_line)
    return "".join([f"--- {path}\n+++ {path}\n", *hunks])


# --- what is the same -------------------------------------------------------


def _same_head(old: bytes, new: bytes) -> int:
    """Return how many bytes are the same at the beginning."""
    limit = min(len(old), len(new))
    for at in range(0, limit, PIECE_BYTES):
        one, other = old[at : at + PIECE_BYTES], new[at : at + PIECE_BYTES]
        if one != other:
            return at + next(
                (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
    return limit


def _same_tail(old: bytes, new: bytes, limit: int) -> int:
    """Return how many bytes are the same at the end, at most `limit`."""
    same = 0
    while same < limit:
        count = min(PIECE_BYTES, limit - same)
        one = old[len(old) - same - count : len(old) - same]
        other = new[len(new) - same - count : len(new) - same]
        if one != other:
            pairs = zip(reversed(one), reversed(other), strict=True)
            return same + next(n for n, (a, b) in enumerate(pairs) if a != b)
        same += count
    return same


def _changed_ends(old: bytes, new: bytes, start: int) -> tuple[int, int]:
    """Return where the last changed line ends in each version; the first one begins at `start` in both."""
    tail = _same_tail(old, new, min(len(old), len(new)) - start)
    if not (_is_line_start(old, len(old) - tail, start) and _is_line_start(new, len(new) - tail, start)):
        # The common end begins in the middle of a line.
        newline = old.find(b"\n", len(old) - tail)
        tail = 0 if newline < 0 else len(old) - newline - 1
    return len(old) - tail, len(new) - tail


def _is_line_start(data: bytes, at: int, start: int) -> bool:
    return at == start or data[at - 1 : at] == b"\n"


def _lines_before(data: bytes, end: int) -> list[bytes]:
    start = end
    for _ in range(CONTEXT_LINES):
        if start:
            start = data.rfind(b"\n", 0, start - 1) + 1
    return _lines(data[start:end])


def _lines_after(data: bytes, start: int) -> list[bytes]:
    end = start
    for _ in range(CONTEXT_LINES):
        newline = data.find(b"\n", end)
        end = len(data) if newline < 0 else newline + 1
    return _lines(data[start:end])


def _count(data: bytes, start: int, end: int) -> int:
    """Return how many lines there are from the beginning of one to the end of another."""
    is_cut = end > start and data[end - 1 : end] != b"\n"
    return data.count(b"\n", start, end) + is_cut


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


# --- hunks ------------------------------------------------------------------


def _replaced(
    old: bytes, new: bytes, above: list[bytes], below: list[bytes], first_line: int
) -> Iterator[str]:
    around = len(above) + len(below)
    yield _head(first_line, around + _count(old, 0, len(old)), around + _count(new, 0, len(new)))
    yield from (_line(" ", line) for line in above)
    yield from _marked("-", old)
    yield from _marked("+", new)
    yield from (_line(" ", line) for line in below)


def _marked(sign: str, data: bytes) -> Iterator[str]:
    """Yield lines with a sign before each, many at a time."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", min(start + PIECE_BYTES, len(data) - 1)) + 1 or len(data)
        newline = b"\n" if data[end - 1 : end] == b"\n" else b""
        lines = data[start : end - len(newline)].replace(b"\n", b"\n" + sign.encode())
        yield _line(sign, lines + newline)
        start = end


class _TooManySteps(Exception):
    """A comparison takes longer than it may."""


class _Comparison(difflib.SequenceMatcher[bytes]):
    """Finds the lines that two versions share, and raises _TooManySteps if that takes too long."""

    def __init__(self, old: list[bytes], new: list[bytes]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._length = len(old)
        self._steps_left = COMPARED_STEPS
        # A search compares each line of a part of the old version with each equal line of all of the new one.
        # In the worst case there are as many searches as lines, in parts that get shorter by one.
        equal = Counter(new)
        steps = (1 + equal[line] for line in old)
        self._steps_before = list(itertools.accumulate(steps, initial=0))

    def find_longest_match(
        self, start: int = 0, end: int | None = None, new_start: int = 0, new_end: int | None = None
    ) -> difflib.Match:
        """Do one search, if there are steps left for it."""
        self._steps_left -= self._steps_before[self._length if end is None else end]
        self._steps_left += self._steps_before[start]
        if self._steps_left < 0:
            raise _TooManySteps
        return super().find_longest_match(start, end, new_start, new_end)


def _compared(old: list[bytes], new: list[bytes], first_line: int) -> Iterator[str] | None:
    """Return the hunks; None if that takes too many steps."""
    try:
        groups = list(_Comparison(old, new).get_grouped_opcodes(CONTEXT_LINES))
    except _TooManySteps:
        return None
    return _hunks(old, new, groups, first_line)


def _hunks(
    old: list[bytes],
    new: list[bytes],
    groups: Sequence[Sequence[tuple[str, int, int, int, int]]],
    first_line: int,
) -> Iterator[str]:
    for group in groups:
        first, last = group[0], group[-1]
        yield _head(first_line + first[1], last[2] - first[1], last[4] - first[3], first_line + first[3])
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[i1:i2])
                continue
            yield from (_line("-", line) for line in old[i1:i2])
            yield from (_line("+", line) for line in new[j1:j2])


def _head(old_start: int, old_count: int, new_count: int, new_start: int | None = None) -> str:
    new_start = old_start if new_start is None else new_start
    return f"@@ -{_range(old_start, old_count)} +{_range(new_start, new_count)} @@\n"


def _range(start: int, count: int) -> str:
    # An empty range is numbered by the line before it.
    return f"{start + 1},{count}" if count else f"{start},0"


def _line(sign: str, line: bytes) -> str:
    text = sign + line.decode("utf-8", "replace")
    return text if text.endswith("\n") else text + "\n\\ No newline at end of file\n"

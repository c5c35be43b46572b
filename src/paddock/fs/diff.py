"""The difference between two versions of a file, as a unified diff. Pure.

Lines end with a newline and nothing else; bytes that are not UTF-8 are shown with replacement characters. The
common beginning and end are set aside first. If the middle is too long to compare line by line, the diff
replaces it as a whole, which is correct but longer.
"""

from __future__ import annotations

import difflib
from itertools import takewhile

COMPARED_LINES = 2000
"""In the worst case the comparison takes time in proportion to the product of both line counts."""

CONTEXT_LINES = 3


def unified_diff(path: str, old: bytes, new: bytes) -> str:
    """Return the diff from `old` to `new`; empty if they are the same."""
    before, after = _lines(old), _lines(new)
    same_head = sum(1 for _ in takewhile(_is_same, zip(before, after, strict=False)))
    rest = min(len(before), len(after)) - same_head
    tails = zip(reversed(before), reversed(after), strict=False)
    same_tail = min(rest, sum(1 for _ in takewhile(_is_same, tails)))
    hunks = _hunks(before, after, same_head, same_tail)
    if not hunks:
        return ""
    return "".join([f"--- {path}\n+++ {path}\n", *hunks])


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _is_same(pair: tuple[bytes, bytes]) -> bool:
    return pair[0] == pair[1]


def _hunks(before: list[bytes], after: list[bytes], head: int, tail: int) -> list[str]:
    start = max(0, head - CONTEXT_LINES)
    kept_tail = max(0, tail - CONTEXT_LINES)
    old, new = before[start : len(before) - kept_tail], after[start : len(after) - kept_tail]
    if old == new:
        return []
    if max(len(old), len(new)) > COMPARED_LINES:
        above, below = head - start, tail - kept_tail
        return [
            _head(start, len(old), len(new)),
            *(_line(" ", line) for line in old[:above]),
            *(_line("-", line) for line in old[above : len(old) - below]),
            *(_line("+", line) for line in new[above : len(new) - below]),
            *(_line(" ", line) for line in old[len(old) - below :]),
        ]
    hunks = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        first, last = group[0], group[-1]
        hunks.append(_head(start + first[1], last[2] - first[1], last[4] - first[3], start + first[3]))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                hunks += [_line(" ", line) for line in old[i1:i2]]
                continue
            hunks += [_line("-", line) for line in old[i1:i2]]
            hunks += [_line("+", line) for line in new[j1:j2]]
    return hunks


def _head(old_start: int, old_count: int, new_count: int, new_start: int | None = None) -> str:
    new_start = old_start if new_start is None else new_start
    return f"@@ -{_range(old_start, old_count)} +{_range(new_start, new_count)} @@\n"


def _range(start: int, count: int) -> str:
    # An empty range is numbered by the line before it.
    return f"{start + 1},{count}" if count else f"{start},0"


def _line(sign: str, line: bytes) -> str:
    text = sign + line.decode("utf-8", "replace")
    return text if text.endswith("\n") else text + "\n\\ No newline at end of file\n"

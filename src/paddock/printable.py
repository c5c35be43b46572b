"""Text that somebody else chose, in characters that can be printed."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_INVISIBLE: Final = (
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters, marks and symbols by name that nobody sees: fillers, joiners and selectors of variants. Two names
that differ in these alone look the same."""

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    r"""Return the text with every unprintable character written as `\n` or `\u001b`.

    Line ends of every kind, terminal escapes, direction marks and lone surrogates are
    unprintable to `str.isprintable`: nothing that a client names can forge a line or
    disturb a terminal. Characters that can't be seen are written in the same way.
    """
    if text.isprintable() and (text.isascii() or _invisible().search(text) is None):
        return text
    return "".join(char if is_visible(char) else _escape(char) for char in text)


@cache
def _invisible() -> re.Pattern[str]:
    # Every command line imports this module, and few have to compile this.
    return re.compile(_INVISIBLE)


def is_visible(char: str) -> bool:
    """Return whether a terminal shows a character, and a person sees it."""
    return char.isprintable() and _invisible().match(char) is None


def _escape(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    # JSON writes a character beyond the first 65536 as two.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

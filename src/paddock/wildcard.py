"""Patterns for one name, in which something stands for any number of characters. Pure.

The sender of a pattern, and the one who chooses the names to match, may mean harm. So the matcher divides
the pattern into pieces of fixed length, and looks for each after the one before. The first place where a
piece fits is as good as any other, so it never backtracks, and the time is at most the product of both
lengths. A regular expression with several `.*` may take for ever, and lets no other thread run meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class Wildcard:
    """One pattern.

    `characters` are regular expressions for exactly one character each; None stands for any number of
    characters.
    """

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, characters: Iterable[str | None], *, ignores_case: bool = False) -> None:
        pieces: list[list[str]] = [[]]
        for character in characters:
            if character is None:
                pieces.append([])
            else:
                pieces[-1].append(character)
        flags = re.DOTALL | (re.IGNORECASE if ignores_case else re.NOFLAG)
        self._first = _Piece(pieces[0], flags)
        self._middle = [_Piece(piece, flags).search for piece in pieces[1:-1] if piece]
        self._last = _Piece(pieces[-1], flags) if len(pieces) > 1 else None

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        first, last = self._first, self._last
        if last is None:
            return len(text) == first.length and first.match(text) is not None
        position = first.length
        end = len(text) - last.length
        if position > end or not last.match(text, end) or not first.match(text):
            return False
        for search in self._middle:
            found = search(text, position, end)
            if found is None:
                return False
            position = found.end()
        return True


def simple_wildcard(pattern: str) -> Wildcard:
    """Return a pattern that ignores case, and in which only `*` and `?` are special."""
    special = {"*": None, "?": "."}
    return Wildcard(
        (special[letter] if letter in special else re.escape(letter) for letter in pattern), ignores_case=True
    )


class _Piece:
    """Characters in a row, none of which repeats."""

    __slots__ = ("length", "match", "search")

    def __init__(self, characters: list[str], flags: re.RegexFlag) -> None:
        expression = re.compile("".join(characters), flags)
        self.length = len(characters)
        self.match = expression.match
        self.search = expression.search

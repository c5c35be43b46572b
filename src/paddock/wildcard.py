"""Patterns for one name, in which something stands for any number of characters. Pure.

The sender of a pattern, and the one who chooses the names to match, may mean harm. So the matcher divides
the pattern into pieces of fixed length, and looks for each after the one before. The first place where a
piece fits is as good as any other, so it never backtracks, and the time is at most the product of both
lengths. A regular expression with several `.*` may take for ever, and lets no other thread run meanwhile.

To make a `Wildcard` takes a hundred times as long as to match it, because it compiles regular expressions.
A `SimpleWildcard` compiles none: a client may bring many, each for one use.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from typing import Final

PATTERN_COST: Final = 8
"""What a pattern costs in addition to its characters, in units of one character."""

SPLIT_COST: Final = 56
"""What it costs in addition if it has a `?`, or a `*` in its middle: then it is matched in Python."""


class Wildcard:
    """One pattern.

    `characters` are regular expressions for exactly one character each; None stands for any number of
    characters.
    """

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, characters: Iterable[str | None], *, ignores_case: bool = False) -> None:
        import re

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


class _Piece:
    """Characters in a row, none of which repeats."""

    __slots__ = ("length", "match", "search")

    def __init__(self, characters: list[str], flags: re.RegexFlag) -> None:
        import re

        expression = re.compile("".join(characters), flags)
        self.length = len(characters)
        self.match = expression.match
        self.search = expression.search


class SimpleWildcard:
    """A pattern that ignores case, and in which only `*` and `?` are special."""

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, pattern: str) -> None:
        first, *others = folded(pattern).split("*")
        self._first = _plain_piece(first)
        self._middle = [_plain_piece(piece) for piece in others[:-1] if piece]
        self._last = _plain_piece(others[-1]) if others else None

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        return self.matches_folded(folded(text))

    def matches_folded(self, text: str) -> bool:
        """Return the same for a text that is `folded`: for one that is held against many patterns."""
        first, last = self._first, self._last
        if last is None:
            return len(text) == first.length and first.fits(text, 0)
        position = first.length
        end = len(text) - last.length
        if position > end or not last.fits(text, end) or not first.fits(text, 0):
            return False
        for piece in self._middle:
            found = piece.find(text, position, end)
            if found < 0:
                return False
            position = found + piece.length
        return True


class WildcardList:
    """Simple patterns, of which a text has to match one. Most are a name, or one with a `*` at its ends."""

    __slots__ = ("_beginnings", "_ends", "_names", "_others", "_parts", "size")

    def __init__(self, patterns: Iterable[str]) -> None:
        names, beginnings, ends = set[str](), list[str](), list[str]()
        self._parts: list[str] = []
        self._others: list[SimpleWildcard] = []
        self.size = 0
        """How much work it is to match a text of one character, in units of its own."""
        for pattern in map(folded, patterns):
            if "*" not in pattern and "?" not in pattern:
                names.add(pattern)
                continue
            bare = pattern.strip("*")
            self.size += PATTERN_COST + len(pattern)
            if "*" in bare or "?" in bare:
                self.size += SPLIT_COST
                self._others.append(SimpleWildcard(pattern))
            elif not pattern.startswith("*"):
                beginnings.append(bare)
            elif not pattern.endswith("*"):
                ends.append(bare)
            else:
                self._parts.append(bare)
        self._names = frozenset(names)
        self._beginnings, self._ends = tuple(beginnings), tuple(ends)

    def matches_folded(self, text: str) -> bool:
        """Return whether one of the patterns matches the whole of a text that is `folded`."""
        if text in self._names or text.startswith(self._beginnings) or text.endswith(self._ends):
            return True
        for part in self._parts:
            if part in text:
                return True
        return any(pattern.matches_folded(text) for pattern in self._others)


def folded(text: str) -> str:
    """Return the text without the difference between cases, with as many characters as before."""
    if text.isascii():
        return text.lower()
    return "".join(map(_folded_letter, text))


def _folded_letter(letter: str) -> str:
    for fold in (letter.casefold(), letter.lower()):
        if len(fold) == 1:
            return fold
    return letter


def _plain_piece(piece: str) -> _Literal | _Gapped:
    return _Gapped(piece) if "?" in piece else _Literal(piece)


class _Literal:
    """Characters in a row that stand for themselves."""

    __slots__ = ("_text", "length")

    def __init__(self, text: str) -> None:
        self._text = text
        self.length = len(text)

    def fits(self, text: str, position: int) -> bool:
        return text.startswith(self._text, position)

    def find(self, text: str, start: int, end: int) -> int:
        return text.find(self._text, start, end)


class _Gapped:
    """Characters in a row, of which some stand for any one.

    Bit n of a number stands for the first n + 1 characters of the piece: whether they fit what ends here. So
    one operation on numbers for each character of the text advances all beginnings at once.
    """

    __slots__ = ("_any", "_positions", "_whole", "length")

    def __init__(self, piece: str) -> None:
        self.length = len(piece)
        self._whole = 1 << (len(piece) - 1)
        self._any = 0
        self._positions: dict[str, int] = {}
        for index, letter in enumerate(piece):
            if letter == "?":
                self._any |= 1 << index
            else:
                self._positions[letter] = self._positions.get(letter, 0) | 1 << index

    def fits(self, text: str, position: int) -> bool:
        return self.find(text, position, position + self.length) == position

    def find(self, text: str, start: int, end: int) -> int:
        beginnings, positions, anywhere, whole = 0, self._positions, self._any, self._whole
        for index in range(start, min(end, len(text))):
            beginnings = (beginnings << 1 | 1) & (positions.get(text[index], 0) | anywhere)
            if beginnings & whole:
                return index + 1 - self.length
        return -1

r"""Quotes what somebody else chose for a person who decides on it: no two texts are quoted alike.

A quoted text is a word that a shell reads back as the same text. What a person can't see, or could take for
something else, is escaped within `$'…'`, as Bash and POSIX write it: there a newline is `\n`, and a backslash
before an n is `\\n`. Letters of other scripts stay readable, so they can look like others: `in_ascii` writes
them out.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from paddock.printable import is_visible

WINDOW_COLUMNS: Final = 80
WINDOW_ROWS: Final = 18
"""Longer questions may not be seen as a whole: a small window has 20 rows, and the answers take some."""

SPACES_LIMIT: Final = 64
"""How many spaces may stand in a row: they push what follows by less than a line of a terminal."""

_MARKS_LIMIT: Final = 3
"""How many marks may stand on a letter, which is enough for all languages; a tower covers other lines."""

_PADDING: Final = re.compile(f" {{{SPACES_LIMIT + 1},}}")
_ESCAPED: Final = "$'"
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return shlex.quote(text) if _is_clear(text) else _escaped(text, is_ascii=False)


def quoted_words(words: Sequence[str]) -> str:
    """Return a command as a line of a shell."""
    return " ".join(map(quoted, words))


def in_ascii(words: Sequence[str]) -> str | None:
    """Return the words with every other character escaped; None if `quoted_words` shows ASCII alone."""
    if quoted_words(words).isascii():
        return None
    return " ".join(quoted(word) if word.isascii() else _escaped(word, is_ascii=True) for word in words)


def quoted_line(text: str) -> str:
    """Return a line of a text as it is, or quoted if it is not clear: also where it ends, and whether it is
    quoted."""
    is_plain = _is_clear(text) and not text.endswith(" ") and not text.startswith(_ESCAPED)
    return text if is_plain else _escaped(text, is_ascii=False)


def is_long(lines: Iterable[str]) -> bool:
    """Return whether a question may not be seen as a whole in a small window, which breaks its lines."""
    # Some letters take two columns.
    widths = (len(line) + sum(not char.isascii() for char in line) for line in lines)
    return sum(max(1, -(-width // WINDOW_COLUMNS)) for width in widths) > WINDOW_ROWS


def _is_clear(text: str) -> bool:
    if text.isascii():
        return text.isprintable() and _PADDING.search(text) is None
    return _PADDING.search(text) is None and all(_is_seen(text, at) for at in range(len(text)))


def _is_seen(text: str, at: int) -> bool:
    """Return whether a person sees the character, and sees it apart from the characters before it."""
    char = text[at]
    if not is_visible(char):
        return False
    if not _is_mark(char):
        return True
    # A mark on an ASCII character strikes it out, or makes a letter that there is in one piece.
    before = text[max(0, at - _MARKS_LIMIT) : at]
    letter = next((each for each in reversed(before) if not _is_mark(each)), "")
    return not letter.isascii()


def _is_mark(char: str) -> bool:
    return unicodedata.category(char).startswith("M")


def _escaped(text: str, *, is_ascii: bool) -> str:
    written: list[str] = []
    spaces = 0
    for at, char in enumerate(text):
        spaces = spaces + 1 if char == " " else 0
        if char in _SHORT_ESCAPES:
            written.append(_SHORT_ESCAPES[char])
        elif spaces > SPACES_LIMIT:
            written.append("\\x20")
        elif (char.isascii() or not is_ascii) and _is_seen(text, at):
            written.append(char)
        else:
            written.append(_code(char))
    return f"{_ESCAPED}{''.join(written)}'"


def _code(char: str) -> str:
    number = ord(char)
    if 0xDC80 <= number <= 0xDCFF:
        # A byte that is not UTF-8 (PEP 383).
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"

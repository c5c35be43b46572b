"""Reads TOML that somebody else may have written. Pure.

The library takes time by the square of the number of parts of a key (`a.a.a = 1`), and looks at all parts of
a table's name for each line below it: a mebibyte can take hours. So a key, or whatever else is in a line,
may have few dots, and a text so many keys. Strings and comments may have any number of them.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

DOTS_LIMIT: Final = 64
"""Dots in one line outside of strings and comments. Keys that people write have five parts at most."""

PARTS_LIMIT: Final = 32 * 1024
"""Keys, tables and arrays: a hundred times as many as people write. The library makes several objects of
each, and to free all of them at its end is one step, which holds up all threads."""

_OPENING: Final = re.compile(r"'{3}|\"{3}|['\"#]")
_TEXT_MARKS: Final = ("'''", '"""')
_CLOSING: Final = {
    "'": re.compile(r"['\n]"),
    '"': re.compile(r'["\n]|\\.', re.DOTALL),
    "#": re.compile(r"\n"),
}


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table. Raises ValueError, also for keys that would take long to read, and RecursionError."""
    plain = _without_strings(text)
    if any(line.count(".") > DOTS_LIMIT for line in plain.split("\n")):
        raise ValueError(f"a line has more than {DOTS_LIMIT} dots outside of strings")
    if sum(map(plain.count, "=[{")) > PARTS_LIMIT:
        raise ValueError(f"it has more than {PARTS_LIMIT} keys, tables and arrays")
    return tomllib.loads(text)


def _without_strings(text: str) -> str:
    """Leave out strings and comments, as the library reads them up to its first error.

    What is not closed ends with the line or the text, so no part is looked at twice. No single call takes
    long: other threads have to wait for each.
    """
    kept, position = [], 0
    while (opening := _OPENING.search(text, position)) is not None:
        kept.append(text[position : opening.start()])
        mark, position = opening[0], opening.end()
        position = _end_of_text(text, position, mark) if mark in _TEXT_MARKS else _end(text, position, mark)
    return "".join((*kept, text[position:]))


def _end(text: str, position: int, mark: str) -> int:
    """Return the end of a string of one line, or of a comment. The end of the line is not a part of it."""
    while (closing := _CLOSING[mark].search(text, position)) is not None:
        if closing[0] == "\n":
            return closing.start()
        position = closing.end()
        if closing[0] == mark:
            return position
    return len(text)


def _end_of_text(text: str, position: int, mark: str) -> int:
    """Return the end of a string of many lines. Before its mark it may have two more quotes of its own."""
    end = text.find(mark, position)
    while end >= 0 and mark == '"""' and (escape := text.find("\\", position, end)) >= 0:
        position = escape + 2
        if position > end:
            end = text.find(mark, position)
    if end < 0:
        return len(text)
    end += len(mark)
    return end + next((more for more in (2, 1) if text.startswith(mark[:more], end)), 0)

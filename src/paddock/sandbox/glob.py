"""The patterns of a profile: which paths below a directory they name.

`*` and `?` stand for characters of one name, `[…]` for one of a set, a whole name `**`
for any number of directories. Everything else stands for itself, also a `[` that is
never closed. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from paddock.errors import ProfileRefused
from paddock.sandbox.path import ROOT, clean

SPECIAL: Final = frozenset("*?[]")
ANY_DIRECTORIES: Final = "**"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, divided where searching begins."""

    base: str
    """The directory to search, as written."""
    rest: str
    """What is looked for below it."""

    def __str__(self) -> str:
        return f"{self.base}/{self.rest}"


def parse_pattern(text: str) -> Pattern:
    """Divide an absolute pattern. Raises ProfileRefused for one that would search the whole file system."""
    first = next((index for index, letter in enumerate(text) if letter in SPECIAL), len(text))
    base, _, rest = text[:first].rpartition("/")
    base = clean(base or ROOT)
    if base == ROOT:
        raise ProfileRefused(
            f"the pattern {text}", "searches the whole file system", "begin it with a directory other than /"
        )
    return Pattern(base, rest + text[first:])


def regular_expression(rest: str) -> re.Pattern[str]:
    """What matches exactly the relative paths that a pattern names."""
    names = [name for name in rest.split("/") if name not in ("", ".")]
    text = ""
    for index, name in enumerate(names):
        is_last = index == len(names) - 1
        if name != ANY_DIRECTORIES:
            text += _name_expression(name) + ("" if is_last else "/")
        else:
            text += ".+" if is_last else "(?:[^/]+/)*"
    return re.compile(text, re.DOTALL)


def _name_expression(name: str) -> str:
    text, index = "", 0
    while index < len(name):
        letter = name[index]
        end = _end_of_set(name, index) if letter == "[" else 0
        if end:
            text += _set_expression(name[index + 1 : end])
            index = end
        elif letter == "*":
            text += "[^/]*"
        elif letter == "?":
            text += "[^/]"
        else:
            text += re.escape(letter)
        index += 1
    return text


def _end_of_set(name: str, start: int) -> int:
    """Where the set that begins at `start` is closed; 0 if it never is."""
    first = start + 1
    if name[first : first + 1] in ("!", "^"):
        first += 1
    # A bracket right at the beginning belongs to the set.
    return name.find("]", first + 1) if name.find("]", first + 1) > 0 else 0


def _set_expression(members: str) -> str:
    is_negated = members[0] in "!^"
    escaped = re.sub(r"([\\\]\[^&~|])", r"\\\1", members[is_negated:])
    return f"[^/{escaped}]" if is_negated else f"[{escaped}]"

"""The patterns of a profile: which paths below a directory they name.

`*` and `?` stand for characters of one name, `[…]` for one of a set, a whole name `**`
for any number of directories. Everything else stands for itself, also a `[` that is
never closed. Pure.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from paddock.errors import ProfileRefused
from paddock.sandbox.path import ROOT, clean

SPECIAL: Final = frozenset("*?[]")
ANY_DIRECTORIES: Final = "**"

_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "._-")
"""Letters that stand for themselves in the patterns of every program."""


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


def regular_expression(rests: Iterable[str]) -> re.Pattern[str]:
    """What matches exactly the relative paths that any of these names."""
    return re.compile("|".join(f"(?:{_path_expression(rest)})" for rest in rests), re.DOTALL)


def deepest_match(rest: str) -> int | None:
    """How many names the paths have that are named; None if there is no bound."""
    names = _names(rest)
    return None if ANY_DIRECTORIES in names else len(names)


def coarse_glob(rest: str) -> str | None:
    """A pattern in ripgrep's words that names whatever this one does, and maybe more.

    What programs understand differently (`?` is a letter or a byte, braces, escapes, sets) becomes `*`, so
    its matches are to be judged again. None if it would name about everything.
    """
    names = [name if name == ANY_DIRECTORIES else _coarse_name(name) for name in _names(rest)]
    return None if not names or names[-1] in ("*", ANY_DIRECTORIES) else "/" + "/".join(names)


def _coarse_name(name: str) -> str:
    return re.sub(r"\*+", "*", "".join(part if part in _PLAIN else "*" for part in _parts(name)))


def _names(rest: str) -> list[str]:
    return [name for name in rest.split("/") if name not in ("", ".")]


def _path_expression(rest: str) -> str:
    names = _names(rest)
    text = ""
    for index, name in enumerate(names):
        is_last = index == len(names) - 1
        if name != ANY_DIRECTORIES:
            text += _name_expression(name) + ("" if is_last else "/")
        else:
            text += ".+" if is_last else "(?:[^/]+/)*"
    return text


def _name_expression(name: str) -> str:
    text = ""
    for part in _parts(name):
        if len(part) > 1:
            text += _set_expression(part[1:-1])
        elif part == "*":
            text += "[^/]*"
        else:
            text += "[^/]" if part == "?" else re.escape(part)
    return text


def _parts(name: str) -> Iterator[str]:
    """The letters of a name; a set, with its brackets, is one."""
    index = 0
    while index < len(name):
        end = (_end_of_set(name, index) if name[index] == "[" else 0) or index
        yield name[index : end + 1]
        index = end + 1


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

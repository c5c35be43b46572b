"""Matches the patterns of a profile against paths below a directory.

`*` and `?` stand for characters of one name, `[…]` for one of a set, and a whole name `**` for any number of
directories. Everything else stands for itself, even a `[` that is never closed. A pattern that matches
nothing, whatever there is, would deny nothing, so it is refused. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from paddock.errors import InvalidProfile, ProfileRefused
from paddock.sandbox.profile.path import ROOT, clean
from paddock.wildcard import Wildcard

SPECIAL: Final = frozenset("*?[]")
ANY_DIRECTORIES: Final = "**"

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
"""Letters that stand for themselves in the patterns of every program."""


class Pattern(Struct, frozen=True):
    """A pattern, split where the search begins."""

    base: str
    """The directory to search, as written."""
    rest: str
    """The pattern to look for below it."""

    def __str__(self) -> str:
        return f"{self.base}/{self.rest}"


def parse_pattern(text: str) -> Pattern:
    """Split an absolute pattern. Raises ProfileRefused for one that would search the whole file system."""
    first = next((index for index, letter in enumerate(text) if letter in SPECIAL), len(text))
    base, _, rest = text[:first].rpartition("/")
    base = clean(base or ROOT)
    if base == ROOT:
        raise ProfileRefused(
            f"the pattern {text}", "searches the whole file system", "begin it with a directory other than /"
        )
    return Pattern(base, rest + text[first:])


class Matcher:
    """Tells whether any of several patterns matches a relative path. Raises InvalidProfile for a bad one.

    A path has no empty names and no `..`. Its names are matched against those of a pattern as characters are
    against a `Wildcard`, within the same bound of time.
    """

    def __init__(self, rests: Iterable[str]) -> None:
        self._patterns = [(_needle(rest), _PathPattern(rest)) for rest in dict.fromkeys(rests)]

    def matches(self, path: str) -> bool:
        """Return whether one of the patterns matches this path."""
        # The text that every match contains rules out nearly all paths of a tree.
        candidates = [pattern for needle, pattern in self._patterns if needle in path]
        if not candidates:
            return False
        names = path.split("/")
        return any(pattern.matches(names) for pattern in candidates)


def deepest_match(rest: str) -> int | None:
    """Return the most names that a matching path can have; None if there is no bound."""
    names = _names(rest)
    return None if ANY_DIRECTORIES in names else len(names)


def coarse_glob(rest: str) -> str | None:
    """Return a pattern for ripgrep that matches whatever this one does, and maybe more.

    Whatever programs understand differently (`?` is a letter or a byte, braces, escapes, sets) becomes `*`,
    so check its matches again. Returns None if it would match nearly everything.
    """
    names = [name if name == ANY_DIRECTORIES else _coarse_name(name) for name in _names(rest)]
    return None if not names or names[-1] in ("*", ANY_DIRECTORIES) else "/" + "/".join(names)


def _coarse_name(name: str) -> str:
    return re.sub(r"\*+", "*", "".join(part if part in _PLAIN else "*" for part in _parts(name)))


def _names(rest: str) -> list[str]:
    return [name for name in rest.split("/") if name not in ("", ".")]


def _needle(rest: str) -> str:
    """Return the longest text that every match of a pattern contains."""
    texts = [""]
    for name in _names(rest):
        texts.append("")
        for part in _parts(name):
            if len(part) > 1 or part in ("*", "?"):
                texts.append("")
            else:
                texts[-1] += part
    return max(texts, key=len)


class _PathPattern:
    """One pattern, divided at each `**` into groups of names that follow one another."""

    def __init__(self, rest: str) -> None:
        names = _names(rest)
        if not names:
            raise InvalidProfile(f"pattern {rest!r}", "names nothing to search for; deny the path itself")
        if ".." in names:
            raise InvalidProfile(f"pattern {rest!r}", "matches nothing; begin it with what `..` leads to")
        if names[-1] == ANY_DIRECTORIES:
            # It matches what is in a directory, at any depth, but not the directory itself.
            names.append("*")
        groups: list[list[Wildcard]] = [[]]
        for name in names:
            if name == ANY_DIRECTORIES:
                groups.append([])
            else:
                groups[-1].append(Wildcard(_characters(name)))
        self._first = groups[0]
        self._middle = [group for group in groups[1:-1] if group]
        self._last = groups[-1] if len(groups) > 1 else None

    def matches(self, names: Sequence[str]) -> bool:
        first, last = self._first, self._last
        if last is None:
            return len(names) == len(first) and _fits(first, names, 0)
        position = len(first)
        end = len(names) - len(last)
        if position > end or not _fits(last, names, end) or not _fits(first, names, 0):
            return False
        for group in self._middle:
            while position + len(group) <= end and not _fits(group, names, position):
                position += 1
            position += len(group)
            if position > end:
                return False
        return True


def _fits(group: Iterable[Wildcard], names: Sequence[str], position: int) -> bool:
    for wildcard in group:
        if not wildcard.matches(names[position]):
            return False
        position += 1
    return True


def _characters(name: str) -> Iterator[str | None]:
    for part in _parts(name):
        if len(part) > 1:
            yield _set_expression(part)
        elif part == "*":
            yield None
        else:
            yield "." if part == "?" else re.escape(part)


def _parts(name: str) -> Iterator[str]:
    """Yield the letters of a name; a set, with its brackets, is one."""
    index = 0
    while index < len(name):
        end = (_end_of_set(name, index) if name[index] == "[" else 0) or index
        yield name[index : end + 1]
        index = end + 1


def _end_of_set(name: str, start: int) -> int:
    """Return where the set that begins at `start` is closed; 0 if it never is."""
    first = start + 1
    if name[first : first + 1] in ("!", "^"):
        first += 1
    # A bracket at the very beginning belongs to the set.
    return name.find("]", first + 1) if name.find("]", first + 1) > 0 else 0


def _set_expression(text: str) -> str:
    members = text[1:-1]
    is_negated = members[0] in "!^"
    members = members[is_negated:]
    ranges = ""
    index = 0
    while index < len(members):
        is_range = members[index + 1 : index + 2] == "-" and index + 2 < len(members)
        first, last = members[index], members[index + 2 if is_range else index]
        if last < first:
            raise InvalidProfile(f"pattern {text!r}", f"the range {first}-{last} runs backwards")
        ranges += f"\\U{ord(first):08x}-\\U{ord(last):08x}"
        index += 3 if is_range else 1
    return f"[{'^' if is_negated else ''}{ranges}]"

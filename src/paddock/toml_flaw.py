"""Says what is wrong with a table of TOML in TOML's words, and where it stands in the file.

It turns the messages of msgspec into sentences for people who have never heard of msgspec. Pure: text in,
text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from paddock.suggestion import suggestion

_LOCATED: Final = r"(?s)(.*) - at `\$\.?(.*)`"
_UNKNOWN_KEY: Final = r"(?s)Object contains unknown field `(.*)`"
_UNKNOWN_WORD: Final = r"(?s)Invalid enum value '(.*)'"

_TOML_TYPES: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "a table",
}

_PART: Final = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_NAME: Final = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER_OR_KEY: Final = rf"[ \t]*(?:\[[ \t]*(?P<table>{_NAME})[ \t]*\]|(?P<key>{_NAME})[ \t]*=)"


class Flaw(NamedTuple):
    """What msgspec refused: the key that holds it, empty for the table itself, and the problem."""

    key: str
    problem: str

    @property
    def unknown_key(self) -> str | None:
        """Return the key that the table must not have, if that is the problem."""
        found = re.fullmatch(_UNKNOWN_KEY, self.problem)
        return None if found is None else found[1]

    @property
    def unknown_word(self) -> str | None:
        """Return the word that is none of those that the key takes, if that is the problem."""
        found = re.fullmatch(_UNKNOWN_WORD, self.problem)
        return None if found is None else found[1]

    @property
    def text(self) -> str:
        """Return the problem as the beginning or the whole of a sentence."""
        text = re.sub(r", got `\w+`$", "", self.problem)
        text = re.sub(r"`(\w+)(?: \| null)?`", lambda name: _TOML_TYPES.get(name[1], name[1]), text)
        return text[:1].lower() + text[1:]


def flaw_of(message: str) -> Flaw:
    """Take the message of a `msgspec.ValidationError` apart."""
    located = re.fullmatch(_LOCATED, message)
    return Flaw("", message) if located is None else Flaw(located[2], located[1])


def instead(written: str, known: Iterable[str]) -> str:
    """Return what somebody may have meant or, if nothing is near, what there is."""
    known = list(known)
    return suggestion(written, known) or f"there are {', '.join(known)}"


def line_of(key: Sequence[str], text: str) -> int | None:
    """Return the line of a key in a file, or of the innermost table around it; None if there is neither."""
    wanted = list(key)
    table: list[str] = []
    best, found = 0, None
    for number, line in enumerate(text.splitlines(), start=1):
        match = re.match(_HEADER_OR_KEY, line)
        if match is None:
            continue
        if match["table"] is not None:
            table = whole = _parts(match["table"])
        else:
            whole = table + _parts(match["key"])
        depth = min(len(whole), len(wanted))
        if depth > best and whole[:depth] == wanted[:depth]:
            best, found = depth, number
    return found


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, name)]

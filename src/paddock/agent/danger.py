"""Lines of shell that destroy what a sandbox lets them write, by the look of them. Pure.

Somebody is asked before such a line runs. That is courtesy and no protection: a line can hide what it does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Final

LAUNCHERS: Final = frozenset({"sudo", "doas", "env", "command", "exec", "nohup", "time"})

LOOKED_CHARS: Final = 16 * 1024
"""How much of a line is looked at: it takes some milliseconds, and nobody else is served meanwhile."""

_TOKEN: Final = re.compile(
    r"(?P<separator>[();<>|&\n]+)"
    r"|(?P<word>(?:[^\s();<>|&'\"\\]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")++)"
    r"|\s",
    re.DOTALL,
)
_QUOTED: Final = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)


def looks_dangerous(line: str) -> bool:
    """Return whether a command at the beginning of the line removes files by force."""
    return any(_removes_by_force(words) for words in _commands(line[:LOOKED_CHARS]))


def _commands(line: str) -> Iterator[Sequence[str]]:
    words: list[str] = []
    at = 0
    # Up to a quote that is not closed: what came before it is looked at.
    while token := _TOKEN.match(line, at):
        at = token.end()
        if token["separator"] is not None:
            yield words
            words = []
        elif token["word"] is not None:
            words.append(_QUOTED.sub(_unquoted, token["word"]))
    yield words


def _unquoted(found: re.Match[str]) -> str:
    return found[1] or found[2] or found[3] or ""


def _removes_by_force(words: Sequence[str]) -> bool:
    rest = list(dropwhile(_precedes_program, words))
    if not rest or posixpath.basename(rest[0]) != "rm":
        return False
    for word in rest[1:]:
        if word == "--":
            return False
        if word == "--force" or (word.startswith("-") and not word.startswith("--") and "f" in word):
            return True
    return False


def _precedes_program(word: str) -> bool:
    return posixpath.basename(word) in LAUNCHERS or _is_assignment(word)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()

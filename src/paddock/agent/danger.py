"""Lines of shell that destroy what a sandbox lets them write, by the look of them. Pure.

Somebody is asked before such a line runs. That is courtesy and no protection: a line can hide what it does.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

SEPARATORS: Final = frozenset("();<>|&\n")
LAUNCHERS: Final = frozenset({"sudo", "doas", "env", "command", "exec", "nohup", "time"})


def looks_dangerous(line: str) -> bool:
    """Return whether a command of the line removes files by force."""
    return any(_removes_by_force(words) for words in _commands(line))


def _commands(line: str) -> Iterator[Sequence[str]]:
    reader = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    reader.commenters = ""
    words: list[str] = []
    try:
        for word in reader:
            if word and set(word) <= SEPARATORS:
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        # A quote that is not closed: what came before it is looked at.
        pass
    yield words


def _removes_by_force(words: Sequence[str]) -> bool:
    rest = list(words)
    while rest and (posixpath.basename(rest[0]) in LAUNCHERS or _is_assignment(rest[0])):
        rest.pop(0)
    if not rest or posixpath.basename(rest[0]) != "rm":
        return False
    for word in rest[1:]:
        if word == "--":
            return False
        if word == "--force" or (word.startswith("-") and not word.startswith("--") and "f" in word):
            return True
    return False


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()

"""What the arguments of a command give away: the paths and hosts that it names, and where it works.

A shell's script is an argument like others, so words are looked for in all of them. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from paddock.sandbox.path import ROOT, join

ARGUMENTS_LIMIT: Final = 64 * 1024
"""Characters of all arguments that are looked at; a script that is longer stands in a file."""

DIRECTORIES_LIMIT: Final = 32
"""Directories above a path that are looked for; deep trees have about half as many."""

_PATH_WORD: Final = re.compile(r"[\w./+~@%-]+")
_HOST_WORD: Final = re.compile(r"[\w.-]+")
_MOVES: Final = re.compile(
    r"(?<![\w./-])(?:cd|pushd|popd|-C|--directory|--cwd|--prefix)(?![\w./-])|chdir|\bcwd\b"
)
_FIRST_MOVE: Final = re.compile(r"\s*cd\s+([\w./+@%-]+)\s*&&")
_HOST: Final = re.compile(r"[a-z][a-z+]{1,9}://(?:[^/\s'\"@]{1,255}@)?([^/\s'\"?#]{1,255})")


class Invocation:
    """A command as it was given, and the directory in which it was started."""

    def __init__(self, argv: Sequence[str], cwd: str) -> None:
        text = "\n".join(argv)[:ARGUMENTS_LIMIT]
        self._path_words = frozenset(_PATH_WORD.findall(text))
        self._host_words = frozenset(_HOST_WORD.findall(text))
        self._hosts = frozenset(_HOST.findall(text))
        self._cwd = _directory_of(argv, cwd)

    def names(self, path: str) -> bool:
        """Whether a path, or a directory that it is in, is among the arguments as it is written."""
        return any(prefix in self._path_words for prefix in _prefixes(path))

    def names_host(self, host: str) -> bool:
        """Whether a host is among the arguments, by the name or address that is given."""
        return host in self._host_words

    def absolute(self, path: str) -> str | None:
        """The path from the root; None for a relative one if the directory can't be known."""
        if path.startswith("/"):
            return path
        return join(self._cwd, path) if self._cwd is not None and self.names(path) else None

    @property
    def host(self) -> str | None:
        """The host, perhaps with a port, if all URLs among the arguments are of the same."""
        return next(iter(self._hosts)) if len(self._hosts) == 1 else None


def _directory_of(argv: Sequence[str], cwd: str) -> str | None:
    """Where a command works; None if it may have gone elsewhere, but not if it goes there first of all."""
    moves = [argument for argument in argv for _ in _MOVES.findall(argument[:ARGUMENTS_LIMIT])]
    if not moves:
        return cwd
    first = _FIRST_MOVE.match(moves[0])
    if len(moves) > 1 or first is None:
        return None
    place = first[1]
    return place.rstrip("/") or ROOT if place.startswith("/") else join(cwd, place)


def _prefixes(path: str) -> Iterator[str]:
    """The path and the directories above it, as they are written; the longest first."""
    for _ in range(DIRECTORIES_LIMIT):
        yield path
        yield path + "/"
        head, slash, _ = path.rstrip("/").rpartition("/")
        path = head or (slash if path.rstrip("/") else "")
        if not path:
            return

"""Reads the arguments of a command: the paths and hosts that it names, and where it works.

A shell's script is an argument like any other, so every argument is searched for words. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from paddock.sandbox.profile.path import ROOT, is_within, join

ARGUMENTS_LIMIT: Final = 64 * 1024
"""Characters of all arguments to search for names; a longer script is in a file."""

DIRECTORIES_LIMIT: Final = 32
"""Directories above a path to look for; deep trees have about half as many."""

REPOSITORY: Final = ".git"
"""What git works on by default, below its working directory."""

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
        everything = "\n".join(argv)
        text = everything[:ARGUMENTS_LIMIT]
        self._lowered = everything.lower()
        self._path_words = frozenset(_PATH_WORD.findall(text))
        self._program_words = frozenset(word.rpartition("/")[2] for word in self._path_words)
        self._host_words = frozenset(_HOST_WORD.findall(text))
        self._hosts = frozenset(_HOST.findall(text))
        self._cwd = _directory_of(argv, cwd)

    def names(self, path: str, *, is_exact: bool = False) -> bool:
        """Return whether the arguments name a path or, unless it `is_exact`, a directory above it.

        The root is above everything, and names nothing. A command that runs git names its repository.
        """
        written = [path]
        if self._cwd is not None and path.startswith(below := self._cwd.rstrip("/") + "/"):
            relative = path.removeprefix(below)
            written += [relative, f"./{relative}"]
        if is_exact:
            return any(name in self._path_words for name in written)
        return any(prefix in self._path_words for name in written for prefix in _prefixes(name)) or any(
            is_within(name, REPOSITORY) and self.runs("git") for name in written
        )

    def runs(self, program: str) -> bool:
        """Return whether the arguments name a program."""
        return program in self._program_words

    def has_any(self, phrases: Iterable[str]) -> bool:
        """Return whether one of these lower-case texts occurs in the arguments."""
        return any(phrase in self._lowered for phrase in phrases)

    def names_host(self, host: str) -> bool:
        """Return whether the arguments contain a host's name or address."""
        return host in self._host_words

    def absolute(self, path: str) -> str | None:
        """Return the path from the root; None for a relative one if the directory can't be known."""
        if path.startswith("/"):
            return path
        return join(self._cwd, path) if self._cwd is not None and self.names(path) else None

    @property
    def host(self) -> str | None:
        """Return the host, perhaps with a port, if all URLs among the arguments have the same one."""
        return next(iter(self._hosts)) if len(self._hosts) == 1 else None


def _directory_of(argv: Sequence[str], cwd: str) -> str | None:
    """Return where a command works; None if it may have gone elsewhere, unless it goes there first of all."""
    moves = [argument for argument in argv for _ in _MOVES.findall(argument[:ARGUMENTS_LIMIT])]
    if not moves:
        return cwd
    first = _FIRST_MOVE.match(moves[0])
    if len(moves) > 1 or first is None:
        return None
    directory = first[1]
    return directory.rstrip("/") or ROOT if directory.startswith("/") else join(cwd, directory)


def _prefixes(path: str) -> Iterator[str]:
    """Yield the path and the directories above it but the root, as they are written, the longest first."""
    for _ in range(DIRECTORIES_LIMIT):
        yield path
        yield path + "/"
        path = path.rstrip("/").rpartition("/")[0]
        if not path:
            return

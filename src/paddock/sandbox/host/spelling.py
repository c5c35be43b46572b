"""Finds the names that a file system may take a path for.

On some file systems `.GIT` is `.git`, on others `.git.` is, or the name with an invisible character in it.
A missing file does not tell on which. So whoever keeps people from a name looks for every spelling of it, and
takes two for one unless the directory has both.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

from paddock.sandbox.profile.path import ROOT, join

SPELLINGS_LIMIT: Final = 64
"""Spellings of one path. Only a path made for that has more than a few."""

_IGNORED: Final = "Cf"
"""Characters without a shape, of which HFS+ ignores some."""

NamesIn = Callable[[str], Iterable[str]]
"""Returns the names in a directory that matter."""


def spellings(path: str, names_in: NamesIn) -> tuple[str, ...]:
    """Return a path without links, and what it may be with names that matter in place of its own.

    A name that leads to the same file is one of them, too. Raises OSError for too many.
    """
    found = [ROOT]
    for name in path.split("/")[1:]:
        if not name:
            continue
        found = [
            join(directory, each)
            for directory in found
            for each in (name, *_others(directory, name, names_in(directory)))
        ]
        if len(found) > SPELLINGS_LIMIT:
            raise OSError(errno.ELOOP, "its names have too many spellings")
    return tuple(found)


def _others(directory: str, name: str, names: Iterable[str]) -> Iterable[str]:
    for other in dict.fromkeys(names):
        if other == name:
            continue
        if _is_one_file(join(directory, name), join(directory, other)) or (
            _folded(name) == _folded(other) and not _are_listed(directory, name, other)
        ):
            yield other


def _folded(name: str) -> str:
    """Return what is left of a name without what a file system may ignore in it."""
    plain = "".join(each for each in name if unicodedata.category(each) != _IGNORED)
    # Windows ignores blanks and dots at the end, and a colon begins the name of a stream of the file.
    return unicodedata.normalize("NFKD", plain.partition(":")[0].rstrip(" .")).casefold()


def _is_one_file(path: str, other: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.stat(other))
    except OSError:
        return False


def _are_listed(directory: str, *names: str) -> bool:
    try:
        return set(names) <= set(os.listdir(directory))
    except OSError:
        return False

"""Filters a tar archive of a directory down to what belongs to it. Blocks; memory is bounded.

While a command runs in a sandbox, Paddock holds names in its workspace, such as `.git` where there is none,
so that nobody can take them. These placeholders are nobody's files, so neither a listing nor an archive
should contain them.
"""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Callable, Set
from typing import IO, Final

from paddock.fs.archive_end import WholeEntry, finish_archive
from paddock.sandbox.host.placeholder import (
    PLACEHOLDER_MODES,
    PLACEHOLDER_SHARED_BITS,
    PlaceholderKind,
)

_GIT_NAMES: Final = frozenset({"HEAD", "refs", "objects", "commondir"})


def may_be_placeholder(name: str) -> bool:
    """Return whether Paddock ever holds this name in a workspace."""
    return (name.startswith(".") and name != ".") or name in _GIT_NAMES


def is_placeholder(mode: int, *, is_directory: bool) -> bool:
    """Return whether a file of this mode is only a placeholder."""
    kind = PlaceholderKind.DIRECTORY if is_directory else PlaceholderKind.FILE
    return stat.S_IMODE(mode) & ~PLACEHOLDER_SHARED_BITS == PLACEHOLDER_MODES[kind]


def copy_archive(
    source: IO[bytes], sink: IO[bytes], real: Set[str], leaves_out: Callable[[str], bool] | None
) -> None:
    """Copy an archive without members whose relative path `leaves_out` names, and without held names.

    `real` holds the names in the directory that are certainly not placeholders.
    """
    left: set[str] = set()
    with (
        tarfile.open(fileobj=source, mode="r|", tarinfo=WholeEntry) as old,
        tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in old:
            path = member.name.removeprefix("./").rstrip("/")
            is_held = may_be_placeholder(path) and "/" not in path and path not in real
            if is_held or (leaves_out is not None and leaves_out(path)):
                left.add(path)
            if not _is_left(path, left):
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
        finish_archive(old)


def _is_left(path: str, left: Set[str]) -> bool:
    """Return whether a path, or one above it, is left out."""
    while path:
        if path in left:
            return True
        path = path.rpartition("/")[0]
    return False

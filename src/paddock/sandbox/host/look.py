"""The planner's view of the files of a host.

`facts` looks at the real ones; a test can describe a host that does not exist. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from paddock.sandbox.host.placeholder import PlaceholderKind

LINK_LIMIT: Final = 40
"""Links on the way to one file, as in the kernel (path_resolution(7))."""


class Kind(StrEnum):
    """What is at a path, links followed."""

    MISSING = "missing"
    FILE = "file"
    DIRECTORY = "directory"


class Link(Struct, frozen=True):
    """A symbolic link: where it is, and what it says."""

    path: str
    target: str
    is_exposed: bool = False
    """Whether any command may have made it: in /tmp, or in a directory that is sticky or open to all."""


class PathFact(Struct, frozen=True):
    """What is at a path."""

    kind: Kind
    real: str
    """The path without links; of one that is missing, as far as it exists and then as written."""
    links: tuple[Link, ...] = ()
    """The links that lead there, in the order in which they are followed."""
    first_missing: str | None = None
    """The first of its directories, or itself, that does not exist."""
    is_hidden: bool = False
    """Whether it may exist all the same, in a directory that can't be searched."""
    placeholder: PlaceholderKind | None = None
    """The placeholder that other commands of this user hold there now."""
    is_circle: bool = False
    """Whether the links lead nowhere, because there are too many of them; it counts as missing then."""


class KernelFile(Struct, frozen=True):
    """A file or directory of the kernel's own, in /proc or /sys."""

    path: str
    is_directory: bool


class Look(Protocol):
    """The planner's view of the host's files."""

    def at(self, path: str) -> PathFact:
        """Return what is there."""
        ...

    def gitdir(self, path: str) -> str | None:
        """Return the directory that a `.git` file points to; None if it is no such file."""
        ...

    def commondir(self, directory: str) -> str | None:
        """Return the repository that a linked worktree belongs to, by its directory there; None for none."""
        ...

    def is_git_directory(self, directory: str) -> bool:
        """Return whether git certainly takes a directory for a repository, and looks no further."""
        ...

    def gitlinks(self, directory: str) -> Sequence[str]:
        """Return where the index of a repository has submodules, relative to its working tree."""
        ...

    def is_empty(self, directory: str) -> bool:
        """Return whether a directory certainly holds nothing."""
        ...

    def is_open(self, directory: str) -> bool:
        """Return whether any user may make something in a directory, also if it is sticky."""
        ...

    def can_grow(self, directory: str) -> bool:
        """Return whether this user could ever make something in a directory, also after changing its mode."""
        ...

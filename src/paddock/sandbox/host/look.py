"""The planner's view of the files of a host.

`facts` looks at the real ones; a test can describe a host that does not exist. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

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
    """Whether any command may have made it: it is in /tmp, or in a sticky or open directory."""


class PathFact(Struct, frozen=True):
    """What is at a path."""

    kind: Kind
    real: str
    """The path without links; a missing one is resolved as far as it exists."""
    links: tuple[Link, ...] = ()
    """The links that lead there, in the order in which they are followed."""
    first_missing: str | None = None
    """The first part of the path that does not exist."""
    is_hidden: bool = False
    """Whether the path may exist after all, in a directory that can't be searched."""
    placeholder: str | None = None
    """The placeholder that other commands of this user hold there now."""
    is_circle: bool = False
    """Whether there are too many links to follow; the path counts as missing then."""


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
        """Return the directory that a `.git` file names, with links and `..`; None if it names none."""
        ...

    def commondir(self, directory: str) -> str | None:
        """Return the repository that a linked worktree belongs to, by its directory there; None for none."""
        ...

    def mercurial_share(self, path: str) -> str | None:
        """Return the directory that a `sharedpath` names, with links and `..`; None if it names none."""
        ...

    def jujutsu_target(self, path: str) -> str | None:
        """Return the directory that a file of Jujutsu names, with links and `..`; None if it names none."""
        ...

    def worktrees(self, directory: str) -> Sequence[str]:
        """Return where a repository's settings say that its working tree is, absolute but as written."""
        ...

    def is_git_directory(self, directory: str) -> bool:
        """Return whether git certainly takes a directory for a repository, and looks no further."""
        ...

    def gitlinks(self, directory: str) -> Sequence[str]:
        """Return where the index of a repository has submodules, relative to its working tree."""
        ...

    def sparse_directories(self, directory: str) -> Sequence[str]:
        """Return the directories of which that index does not tell what is in them, relative as well."""
        ...

    def is_empty(self, directory: str) -> bool:
        """Return whether a directory certainly holds nothing."""
        ...

    def is_open(self, directory: str) -> bool:
        """Return whether any user may create something in a directory, even if it is sticky."""
        ...

    def can_grow(self, directory: str) -> bool:
        """Return whether this user could ever create something in a directory, even by changing its mode."""
        ...

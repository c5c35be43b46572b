"""Compares absolute paths as text.

Every path here is absolute, without `.`, `..`, doubled or trailing slashes; `clean` makes it so. The module
does not know whether a path exists.
"""

from __future__ import annotations

import posixpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

ROOT: Final = "/"
DEV: Final = "/dev"
PROC: Final = "/proc"
KERNEL_SETTINGS: Final = "/proc/sys"
KERNEL_OBJECTS: Final = "/sys"


def clean(path: str) -> str:
    """Return the path without `.`, `..` and needless slashes; `..` is taken as written, not through links."""
    # normpath keeps two leading slashes, which POSIX lets mean something else; Linux does not.
    return "/" + posixpath.normpath(path).lstrip("/")


def depth(path: str) -> int:
    """Return how many names lead to a path; the root has none."""
    return 0 if path == ROOT else path.count("/")


def parent(path: str) -> str:
    """Return the directory that holds a path; the root is its own."""
    return path[: path.rindex("/")] or ROOT


def join(path: str, below: str) -> str:
    """Return the path `below` under a directory."""
    return f"/{below}" if path == ROOT else f"{path}/{below}"


def is_within(path: str, directory: str) -> bool:
    """Return whether a path is the directory or lies below it."""
    return path == directory or directory == ROOT or path.startswith(directory + "/")


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, the nearest first, the root last."""
    while path != ROOT:
        path = parent(path)
        yield path

"""Absolute paths as text: what lies below what.

Every path here is absolute, without `.`, `..`, doubled or trailing slashes; `clean`
makes it so. Whether something exists is not known here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

ROOT = "/"


def clean(path: str) -> str:
    """The path without `.`, `..` and needless slashes; a `..` is taken as written, not through links."""
    # normpath keeps two leading slashes, which POSIX lets mean something else; Linux does not.
    return "/" + posixpath.normpath(path).lstrip("/")


def depth(path: str) -> int:
    """How many names lead to it; the root has none."""
    return 0 if path == ROOT else path.count("/")


def parent(path: str) -> str:
    """The directory that holds it; the root is its own."""
    return path[: path.rindex("/")] or ROOT


def join(path: str, below: str) -> str:
    """The path `below` under a directory."""
    return f"/{below}" if path == ROOT else f"{path}/{below}"


def is_within(path: str, directory: str) -> bool:
    """Whether it is the directory or lies below it."""
    return path == directory or directory == ROOT or path.startswith(directory + "/")


def ancestors(path: str) -> Iterator[str]:
    """The directories above it, the nearest first, the root last."""
    while path != ROOT:
        path = parent(path)
        yield path

"""Which directories a watch may look into: what is looked at is held first, and then judged by its real path.

A name that was judged could lead elsewhere when it is used, because whoever may write there can
exchange it for a link. A descriptor can't.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES

Sight = Callable[[bytes], bool]
"""Whether somebody may see a path, which is absolute and has no links. May be called in any thread."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that is held open."""

    path: bytes
    """Leads to it, and to nothing else, while it is held."""
    real: bytes
    """Where it was when it was opened."""


@contextmanager
def held(directory: bytes, *, follow: bool) -> Iterator[Place]:
    """A directory, for the time of the block. Raises OSError."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    file = os.open(directory, flags)
    try:
        path = b"/proc/self/fd/%d" % file
        yield Place(path, os.readlink(path))
    finally:
        os.close(file)


def require_sight(sight: Sight | None, path: bytes) -> None:
    """Raise PermissionError for what may not be seen; without `sight` everything may."""
    if sight is not None and not sight(path):
        raise PermissionError(EACCES, os.strerror(EACCES))


def below(directory: bytes, name: bytes) -> bytes:
    """The path of a name in a directory."""
    return directory.rstrip(b"/") + b"/" + name

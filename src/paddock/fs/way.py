"""Follows a path as the kernel does, and keeps every path that decides where it leads. Pure.

Whoever can change what is at one of these paths can make the path lead elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

LINKS_LIMIT: Final = 40
"""Links on the way before the kernel says ELOOP (path_resolution(7))."""

NAMES_LIMIT: Final = 4096
"""Names on the way, with those of links: twice as many as the longest path has."""

PATHS_LIMIT: Final = 256
"""Paths to keep: 1 MiB of the longest. Hardly any path leads through ten."""

ReadLink = Callable[[bytes], bytes | None]
"""Returns the target of a link; None if there is no link at that path."""


def way_of(path: bytes, read_link: ReadLink) -> list[bytes]:
    """Return the paths that an absolute path leads through, none of which has links or dots in it.

    These are each link on the way, each directory that is left by `..`, and the end. What is missing has no
    links. Raises OSError for more than a limit.
    """
    passed: dict[bytes, None] = {}
    names = path.split(b"/")[::-1]
    reached, links, taken = b"", 0, 0
    while names:
        name = names.pop()
        taken += 1
        if name in (b"", b"."):
            continue
        if name == b"..":
            passed[reached or b"/"] = None
            reached = reached.rpartition(b"/")[0]
        elif (target := read_link(here := reached + b"/" + name)) is None:
            reached = here
        else:
            passed[here] = None
            links += 1
            names += target.split(b"/")[::-1]
            if target.startswith(b"/"):
                reached = b""
        if links > LINKS_LIMIT or taken > NAMES_LIMIT or len(passed) >= PATHS_LIMIT:
            raise OSError(errno.ELOOP, "too many links or names")
    end = reached or b"/"
    # It comes last, even if the way has been there before.
    passed.pop(end, None)
    return [*passed, end]

"""Follows a path as the kernel does, and keeps every place that decides where it leads. Pure.

Whoever can change one of these places can make the path lead elsewhere.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

LINKS_LIMIT: Final = 40
"""Links on the way before the kernel says ELOOP (path_resolution(7))."""

NAMES_LIMIT: Final = 4096
"""Names on the way, with those of links: twice as many as the longest path has."""

PLACES_LIMIT: Final = 256
"""Places to keep: 1 MiB of the longest paths. Hardly a path has ten."""

ReadLink = Callable[[bytes], bytes | None]
"""Returns the target of a link; None if there is no link at that path."""


def way_of(path: bytes, read_link: ReadLink) -> list[bytes]:
    """Return the places that an absolute path leads through, none of which has links or dots in it.

    These are each link on the way, each directory that is left by `..`, and the end. What is missing has no
    links. Raises OSError for more than a limit.
    """
    places: dict[bytes, None] = {}
    names = path.split(b"/")[::-1]
    reached, links, taken = b"", 0, 0
    while names:
        name = names.pop()
        taken += 1
        if name in (b"", b"."):
            continue
        if name == b"..":
            places[reached or b"/"] = None
            reached = reached.rpartition(b"/")[0]
        elif (target := read_link(place := reached + b"/" + name)) is None:
            reached = place
        else:
            places[place] = None
            links += 1
            names += target.split(b"/")[::-1]
            if target.startswith(b"/"):
                reached = b""
        if links > LINKS_LIMIT or taken > NAMES_LIMIT or len(places) >= PLACES_LIMIT:
            raise OSError(errno.ELOOP, "too many links or names")
    end = reached or b"/"
    # It comes last, even if the way has been there before.
    places.pop(end, None)
    return [*places, end]

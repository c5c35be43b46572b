"""What a profile must grant so that a path can be used, and the sentence that says so in a question. Pure.

Only what exists can be granted: for a new file, that is the nearest directory.
"""

from __future__ import annotations

import posixpath

from msgspec import Struct

from paddock.agent.place import Place
from paddock.quotation import quoted


class PathGrant(Struct, frozen=True):
    """A grant of one path."""

    paths: tuple[str, ...]
    """What the profile grants."""
    change: str
    """What a yes changes."""


def read_grant(place: Place) -> PathGrant:
    """Return the grant for reading a path and everything below it."""
    return PathGrant((place.asked,), f"It may read {quoted(place.asked)}.")


def write_grant(place: Place) -> PathGrant:
    """Return the grant for writing a path and everything below it."""
    granted = place.location.existing
    if place.is_missing:
        why = f"because {quoted(place.asked)} does not exist yet"
        return PathGrant((granted,), f"It may write {quoted(granted)} and everything in it, {why}.")
    return PathGrant((granted,), f"It may write {quoted(place.real)}{_way(place)}.")


def replacement_grant(place: Place) -> PathGrant:
    """Return the grant for a tool that replaces one file as a whole, for which it writes the directory."""
    directory = place.location.existing if place.is_missing else posixpath.dirname(place.real)
    use = f"the tool, but no command, may use the directory {quoted(directory)} for that"
    return PathGrant((directory,), f"It may write {quoted(place.real)}{_way(place)}; {use}.")


def _way(place: Place) -> str:
    return "" if place.real == place.asked else f", which is where {quoted(place.asked)} leads"

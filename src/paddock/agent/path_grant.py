"""What a profile must grant so that a path can be used, and the sentence that says so in a question. Pure.

Only what exists can be granted. For a new file that is the nearest directory, unless the profile hides that:
then nothing but the path itself is granted, and nothing at all if it is missing.
"""

from __future__ import annotations

import posixpath

from msgspec import Struct

from paddock.agent.place import Place
from paddock.quotation import quoted


class PathGrant(Struct, frozen=True):
    """A grant of one path."""

    paths: tuple[str, ...]
    """What the profile grants: a path without links and, if commands see no link to it yet, also the link."""
    change: str
    """What a yes changes."""
    refusal: str | None = None
    """Why a yes would change nothing; whoever asked learns it only after the yes."""


def read_grant(place: Place) -> PathGrant:
    """Return the grant for reading a path and everything below it."""
    change = f"It may read {quoted(place.real)}{_way(place)}."
    return PathGrant(_names(place), change, _refusal(place))


def write_grant(place: Place) -> PathGrant:
    """Return the grant for writing a path and everything below it."""
    granted = place.location.existing
    if place.is_missing and not place.is_hidden:
        why = f"because {quoted(place.asked)} does not exist yet"
        return PathGrant((granted,), f"It may write {quoted(granted)} and everything in it, {why}.")
    change = f"It may {_verb(place)} {quoted(place.real)}{_way(place)}."
    return PathGrant(_names(place), change, _refusal(place))


def replacement_grant(place: Place) -> PathGrant:
    """Return the grant for a tool that replaces one file as a whole, for which it writes the directory."""
    directory = place.location.existing if place.is_missing else posixpath.dirname(place.real)
    refusal = None
    if place.is_hidden and directory != posixpath.dirname(place.real):
        directory, refusal = posixpath.dirname(place.real), _refusal(place)
    use = f"the tool, but no command, may use the directory {quoted(directory)} for that"
    return PathGrant(
        (directory,), f"It may {_verb(place)} {quoted(place.real)}{_way(place)}; {use}.", refusal
    )


def _names(place: Place) -> tuple[str, ...]:
    if not place.is_hidden:
        return (place.real,)
    return tuple(dict.fromkeys((place.real, place.asked)))


def _verb(place: Place) -> str:
    # Whatever may be written is shown, too.
    return "read and write" if place.is_hidden else "write"


def _way(place: Place) -> str:
    return "" if place.real == place.asked else f", which is where {quoted(place.asked)} leads"


def _refusal(place: Place) -> str | None:
    if not (place.is_hidden and place.is_missing):
        return None
    return (
        f"there is no {place.asked}, and where the profile hides files, only what exists is granted; ask for "
        "a directory that exists"
    )

"""Where a path that a command named leads on the host, and what is there.

A sandbox shows the files of the host under their own paths, so the host tells what the command
would have found without it. It blocks as file systems do, and follows links as the kernel does;
but nothing is looked at in /proc and /dev, which are others inside, and whose links lead to
whatever the process has that asks.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from paddock.sandbox.attempt import Content
from paddock.sandbox.cover import Cover
from paddock.sandbox.facts import is_placeholder
from paddock.sandbox.look import LINK_LIMIT
from paddock.sandbox.path import ROOT, clean, join, parent
from paddock.sandbox.view import DEV, PROC


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads."""

    real: str
    """Without links, as far as it exists."""
    content: Content


def place_of(path: str, *, follows: bool = True, cover: Cover | None = None) -> Place:
    """Find an absolute path; a link at its end is followed if the call does so.

    With a `cover`, nothing is looked at that is covered.
    """
    names = _names(path)
    real = ROOT
    content = _directory(real, cover)
    links = 0
    while names:
        name = names.pop()
        if content not in (Content.DIRECTORY, Content.OWN):
            return Place(real, Content.NOWHERE)
        if name == "..":
            real = parent(real)
            content = _directory(real, cover)
            continue
        real = join(real, name)
        if real in (PROC, DEV):
            return Place(_joined(real, names), Content.FILE)
        shown = None if cover is None else cover.at(real)
        if shown is Content.REFUSED:
            return Place(_joined(real, names), shown)
        target = None
        if shown is None:
            shown, target = _look(real, follows=follows or bool(names))
        if target is not None:
            links += 1
            names += _names(target)
            real = ROOT if target.startswith("/") else parent(real)
            shown = _directory(real, cover) if links <= LINK_LIMIT else Content.NOWHERE
        content = shown
    return Place(real, content)


def _directory(path: str, cover: Cover | None) -> Content:
    """Of what is known to be a directory."""
    return (None if cover is None else cover.at(path)) or Content.DIRECTORY


def _look(path: str, *, follows: bool) -> tuple[Content, str | None]:
    """What the host has there, and where to go on if it is a link."""
    try:
        status = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(status.st_mode) and follows else None
    except FileNotFoundError:
        return Content.NOTHING, None
    except OSError:
        return Content.NOWHERE, None
    if is_placeholder(path, status):
        # Made for a sandbox, perhaps this one. Without it nothing would be there.
        return Content.NOTHING, None
    if stat.S_ISDIR(status.st_mode):
        return Content.DIRECTORY, None
    is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
    return Content.FILE if is_file else Content.SPECIAL, target


def real_paths(path: str, cover: Cover | None = None) -> tuple[str, ...]:
    """Where a path leads if a link at its end is followed, and if it is not; one, if that is the same."""
    return tuple({place_of(path, follows=follows, cover=cover).real: None for follows in (True, False)})


def _names(path: str) -> list[str]:
    """The names to go through, the next one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _joined(path: str, names: list[str]) -> str:
    return clean("/".join([path, *reversed(names)]))

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
from paddock.sandbox.facts import LINK_LIMIT, is_placeholder
from paddock.sandbox.path import ROOT, clean, join, parent
from paddock.sandbox.view import DEV, PROC


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads."""

    real: str
    """Without links, as far as it exists."""
    content: Content


def place_of(path: str, *, follows: bool = True) -> Place:
    """Find an absolute path; a link at its end is followed if the call does so."""
    names = _names(path)
    real = ROOT
    content = Content.DIRECTORY
    links = 0
    while names:
        name = names.pop()
        if content is not Content.DIRECTORY:
            return Place(real, Content.NOWHERE)
        if name == "..":
            real = parent(real)
            continue
        real = join(real, name)
        if real in (PROC, DEV):
            return Place(clean("/".join([real, *reversed(names)])), Content.FILE)
        try:
            status = os.lstat(real)
            if stat.S_ISLNK(status.st_mode) and (names or follows):
                target = os.readlink(real)
                links += 1
                names += _names(target)
                real = ROOT if target.startswith("/") else parent(real)
                if links > LINK_LIMIT:
                    return Place(real, Content.NOWHERE)
                continue
        except FileNotFoundError:
            return _missing(real, names)
        except OSError:
            return Place(real, Content.NOWHERE)
        if is_placeholder(real, status):
            # Made for a sandbox, perhaps this one. Without it nothing would be there.
            return _missing(real, names)
        content = _content(status.st_mode)
    return Place(real, content)


def real_paths(path: str) -> tuple[str, ...]:
    """Where a path leads if a link at its end is followed, and if it is not; one, if that is the same."""
    return tuple({place_of(path, follows=follows).real: None for follows in (True, False)})


def _names(path: str) -> list[str]:
    """The names to go through, the next one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _missing(real: str, names: list[str]) -> Place:
    return Place(real, Content.NOTHING) if not names else Place(real, Content.NOWHERE)


def _content(mode: int) -> Content:
    if stat.S_ISDIR(mode):
        return Content.DIRECTORY
    return Content.FILE if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else Content.SPECIAL

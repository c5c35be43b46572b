"""Finds where a path that a command named leads on the host, and what is there.

A sandbox shows the host's files under their own paths, so the host shows what the command would have found
without the sandbox. This module blocks as file systems do, and follows links as the kernel does. It looks at
nothing in /proc and /dev, which differ inside, and whose links depend on the process that asks.
"""

from __future__ import annotations

import os
import stat

from paddock.sandbox.denial.attempt import Content, Resolution
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.host.look import LINK_LIMIT
from paddock.sandbox.host.question import is_placeholder
from paddock.sandbox.profile.path import DEV, PROC, ROOT, clean, join, parent


def resolve(path: str, *, follows: bool = True, overlay: MountOverlay | None = None) -> Resolution:
    """Resolve an absolute path; follow a link at its end if the call would.

    With an `overlay`, look at nothing that it covers.
    """
    names = _names(path)
    real = ROOT
    content = _directory(real, overlay)
    links = 0
    while names:
        name = names.pop()
        if content not in (Content.DIRECTORY, Content.OWN):
            return Resolution(real, Content.NOWHERE)
        if name == "..":
            real = parent(real)
            content = _directory(real, overlay)
            continue
        real = join(real, name)
        if real in (PROC, DEV):
            return Resolution(_joined(real, names), Content.FILE)
        shown = None if overlay is None else overlay.at(real)
        if shown is Content.REFUSED:
            return Resolution(_joined(real, names), shown)
        target = None
        if shown is None:
            shown, target = _look(real, follows=follows or bool(names))
        if target is not None:
            links += 1
            names += _names(target)
            real = ROOT if target.startswith("/") else parent(real)
            shown = _directory(real, overlay) if links <= LINK_LIMIT else Content.NOWHERE
        content = shown
    return Resolution(real, content)


def _directory(path: str, overlay: MountOverlay | None) -> Content:
    """Return what the command sees at a path that is known to be a directory."""
    return (None if overlay is None else overlay.at(path)) or Content.DIRECTORY


def _look(path: str, *, follows: bool) -> tuple[Content, str | None]:
    """Return what the host has there, and where to go on if it is a link."""
    try:
        status = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(status.st_mode) and follows else None
    except FileNotFoundError:
        return Content.NOTHING, None
    except OSError:
        return Content.NOWHERE, None
    if is_placeholder(path, status):
        # It was made for a sandbox, perhaps this one; otherwise nothing would be there.
        return Content.NOTHING, None
    if stat.S_ISDIR(status.st_mode):
        return Content.DIRECTORY, None
    is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
    return Content.FILE if is_file else Content.SPECIAL, target


def resolutions(path: str, overlay: MountOverlay | None = None) -> tuple[Resolution, ...]:
    """Return where a path leads if a link at its end is followed, and if not; one if both are the same."""
    found = (resolve(path, follows=follows, overlay=overlay) for follows in (True, False))
    return tuple({each.real: each for each in found}.values())


def _names(path: str) -> list[str]:
    """Return the names to go through, the next one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _joined(path: str, names: list[str]) -> str:
    return clean("/".join([path, *reversed(names)]))

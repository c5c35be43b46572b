"""Tells how the user can call this program again from where it was called."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def own_command() -> str:
    """Return `paddock` if that is this program, otherwise what a shell in this directory takes for it."""
    program = sys.argv[0]
    if os.path.basename(program) == "__main__.py":
        return f"{shlex.quote(_short(sys.executable))} -m paddock"
    found = shutil.which("paddock")
    try:
        if found is not None and os.path.samefile(found, program):
            return "paddock"
    except OSError:
        return "paddock"
    return shlex.quote(_short(program))


def _short(path: str) -> str:
    """Return a path from here on, if the file is below; a shell needs a slash in it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    is_below = not relative.startswith(os.pardir)
    return (relative if os.sep in relative else os.path.join(os.curdir, relative)) if is_below else path

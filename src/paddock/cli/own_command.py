"""Tells how the user can call this program again, in another terminal for example."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def own_command() -> str:
    """Return `paddock` if that is this program, otherwise what a shell in any directory takes for it."""
    program = sys.argv[0]
    if os.path.basename(program) == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m paddock"
    found = shutil.which("paddock")
    try:
        if found is not None and os.path.samefile(found, program):
            return "paddock"
    except OSError:
        return "paddock"
    return shlex.quote(os.path.abspath(program))

"""Finds what killed janitors have left on the host, from their journals (native/journal.h).

This module only looks: the next janitor that starts removes them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from paddock.sandbox.enforce.janitor import JOURNALS


def leftovers(directory: Path) -> list[str]:
    """Return the paths that still exist. `directory` is the launchers'."""
    try:
        journals = list((directory / JOURNALS).iterdir())
    except OSError:
        return []
    named = {path for journal in journals for path in _named(journal)}
    return sorted(path for path in named if os.path.lexists(path))


def _named(journal: Path) -> Iterator[str]:
    try:
        with journal.open("rb") as file:
            # A live janitor has its journal locked.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            items = file.read().split(b"\0")
    except OSError:
        return
    for item in items:
        _, _, path = item.partition(b"/")
        if path:
            yield f"/{os.fsdecode(path)}"

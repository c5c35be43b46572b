"""From a path to a descriptor, with links followed or not.

Where links are not followed no check is made beforehand: the descriptor that comes out was
reached without one, whatever else happened to the path meanwhile.
"""

from __future__ import annotations

import os


def open_path(path: bytes, flags: int, mode: int = 0o666, *, follow: bool) -> int:
    """Open a path. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), mode)

"""Where the programs of the package that are not in Python lie. Pure."""

from __future__ import annotations


def native_path(name: str) -> str:
    """Return the path of a program, whether it was built or not."""
    return f"{__file__.rpartition('/')[0]}/native/{name}"

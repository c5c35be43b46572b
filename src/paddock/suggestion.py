"""Suggests the name that a user may have meant instead of an unknown one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NEAR: Final = 0.6
"""Share of the characters of both names that must agree."""

BEGINNING: Final = 0.95
"""The score of a name that is like the beginning of a longer one."""


def suggestion(written: str, known: Iterable[str]) -> str | None:
    """Return `did you mean 'listen'?` for a near miss; None if nothing is near."""
    from difflib import SequenceMatcher

    def likeness(name: str) -> float:
        whole = SequenceMatcher(None, written.lower(), name.lower()).ratio()
        beginning = SequenceMatcher(None, written.lower(), name[: len(written)].lower()).ratio()
        return max(whole, BEGINNING * beginning)

    nearest = max(known, key=likeness, default=None)
    is_near = nearest is not None and likeness(nearest) >= NEAR
    return f"did you mean {nearest!r}?" if is_near else None

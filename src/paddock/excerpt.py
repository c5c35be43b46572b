"""Cuts a text that somebody else chose to its beginning, for an error or a log.

The author of the text decides how long it is. Quoting all of it would cost time and memory
several times over, and help nobody.
"""

from __future__ import annotations

EXCERPT_CHARS = 200
"""Enough to recognise a text."""


def excerpt(text: str, limit_chars: int = EXCERPT_CHARS) -> str:
    """Return the text, or its beginning and how many characters are missing."""
    if len(text) <= limit_chars:
        return text
    return f"{text[:limit_chars]}… (+{len(text) - limit_chars})"

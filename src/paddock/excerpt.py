"""Cuts a text that somebody else chose to its beginning, for an error or a log.

Whoever writes the text decides how long it is. To quote all of it would cost time and memory
several times over, and tell nobody more.
"""

from __future__ import annotations

EXCERPT_CHARS = 200
"""Enough to recognise a text by."""


def excerpt(text: str, limit_chars: int = EXCERPT_CHARS) -> str:
    """Return the text, or its beginning and how many characters are missing."""
    if len(text) <= limit_chars:
        return text
    return f"{text[:limit_chars]}… (+{len(text) - limit_chars})"

"""Strings for programs in C: lists of strings, each ended by NUL.

Only this module makes such a list. A string that holds a NUL itself would become two, and its author
could inject arguments of his own; so it is an error here, whatever was checked before.
"""

from __future__ import annotations

from paddock.excerpt import excerpt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NUL_FLAW = "contains a NUL byte"


def c_strings(strings: Sequence[str], encoding: str = "utf-8") -> bytes:
    """Encode a list. Bytes that Python could not decode survive (PEP 383).

    Raises ValueError for a string with a NUL in it, and for one that has no form in the encoding.
    """
    encoded = "\0".join((*strings, "")).encode(encoding, "surrogateescape")
    if encoded.count(b"\0") != len(strings):
        raise ValueError(f"one of {len(strings)} strings {NUL_FLAW}")
    return encoded


def refuse_nul(name: str, text: str | None) -> None:
    """Raise ValueError, which names the text, if it contains a NUL."""
    if text is not None and "\0" in text:
        raise ValueError(f"{name} {excerpt(text)!r} {NUL_FLAW}")

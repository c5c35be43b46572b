"""Text that somebody else chose, in characters that can be printed."""

from __future__ import annotations

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    r"""Return the text with every unprintable character written as `\n` or `\u001b`.

    Line ends of every kind, terminal escapes, direction marks and lone surrogates are
    unprintable to `str.isprintable`: nothing that a client names can forge a line or
    disturb a terminal.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    # JSON writes a character beyond the first 65536 as two.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

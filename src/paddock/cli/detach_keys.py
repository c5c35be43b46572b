"""The keys that leave a process running: how they are written, and finding them in what is typed. Pure."""

from __future__ import annotations

from msgspec import Struct

_CONTROLLED = "@abcdefghijklmnopqrstuvwxyz[\\]^_"
"""Ctrl with the n-th of these sends the byte n (ASCII)."""

FORMS = "expected keys such as ctrl-p or x, several separated by commas: ctrl-p,ctrl-q"


def parse_keys(text: str) -> bytes:
    """Return the bytes that a terminal sends for keys written as `ctrl-p,ctrl-q`. Raises ValueError."""
    return bytes(_parse_key(key, text) for key in text.split(","))


def _parse_key(key: str, text: str) -> int:
    prefix, dash, name = key.partition("-")
    if dash and prefix.lower() == "ctrl" and len(name) == 1 and name.lower() in _CONTROLLED:
        return _CONTROLLED.index(name.lower())
    if len(key) == 1 and key.isascii() and key.isprintable():
        return ord(key)
    raise ValueError(f"{key!r} in {text!r} is not a key; {FORMS}")


class Typed(Struct, frozen=True):
    """What is for the process, and whether the detach keys came after it."""

    data: bytes
    is_detaching: bool


class KeyWatch:
    """Finds a sequence of keys. Keys that could be its beginning are held back until that is decided."""

    def __init__(self, keys: bytes) -> None:
        self._keys = keys
        self._held = b""

    def feed(self, data: bytes) -> Typed:
        """Take what was typed. After the sequence was found the rest is dropped; do not go on then."""
        typed = self._held + data
        index = typed.find(self._keys)
        if index >= 0:
            self._held = b""
            return Typed(typed[:index], is_detaching=True)
        # The longest end of it that may yet become the sequence.
        held = next(
            (size for size in range(len(self._keys) - 1, 0, -1) if typed.endswith(self._keys[:size])), 0
        )
        self._held = typed[len(typed) - held :]
        return Typed(typed[: len(typed) - held], is_detaching=False)

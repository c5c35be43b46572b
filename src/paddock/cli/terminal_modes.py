"""Follows what a program switches on in the terminal that shows its output; knows what switches it off. Pure.

A full-screen program that ends by itself cleans up. One that is left behind, killed, or cut off by a lost
connection leaves its screen, an invisible cursor, or a mouse that types (ctlseqs of xterm).
"""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE = rb"\x1b(?:\[\?([\d;]+)([hl])|([=>])|(c))"
_PARTIAL = rb"\x1b(?:\[(?:\?[\d;]*)?)?$"
"""The beginning of such a sequence, at the end of a piece."""

_PARTIAL_LIMIT_BYTES: Final = 64

OFF: Final = {
    1: "cursor keys of applications",
    9: "mouse",
    47: "other screen",
    1000: "mouse",
    1001: "mouse",
    1002: "mouse",
    1003: "mouse",
    1004: "focus",
    1005: "mouse in UTF-8",
    1006: "mouse in decimal numbers",
    1007: "mouse wheel as keys",
    1015: "mouse in decimal numbers",
    1047: "other screen",
    1049: "other screen",
    2004: "marked pastes",
}
"""Modes that are off in a terminal as a shell knows it."""

CURSOR: Final = 25
AUTOWRAP: Final = 7
ON: Final = frozenset({CURSOR, AUTOWRAP})
"""Modes that are on there."""


class TerminalModes:
    """Follows the output of a program."""

    def __init__(self) -> None:
        self._changed: dict[int, None] = {}
        self._has_keypad = False
        self._partial = b""

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        data = self._partial + data
        for found in re.finditer(_SEQUENCE, data):
            if found[4]:
                self._changed.clear()
                self._has_keypad = False
            elif found[3]:
                self._has_keypad = found[3] == b"="
            else:
                for number in found[1].split(b";"):
                    self._switch(int(number or b"0"), is_on=found[2] == b"h")
        partial = re.search(_PARTIAL, data[-_PARTIAL_LIMIT_BYTES:])
        self._partial = partial[0] if partial else b""

    def _switch(self, mode: int, *, is_on: bool) -> None:
        if (mode in ON and not is_on) or (mode in OFF and is_on):
            self._changed[mode] = None
        elif mode in ON or mode in OFF:
            self._changed.pop(mode, None)

    def restoring(self) -> bytes:
        """Return what puts the terminal back; nothing if nothing has to be."""
        # The last first: the other screen is left before whatever was switched on before it.
        switches = [f"\x1b[?{mode}{'h' if mode in ON else 'l'}" for mode in reversed(self._changed)]
        if self._has_keypad:
            switches.append("\x1b>")
        # Colours too, where the program did not end by itself.
        return ("".join(switches) + "\x1b[0m").encode() if switches else b""

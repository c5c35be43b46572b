"""Tells what a person typed from what the terminal itself sends. Pure.

A terminal answers questions of whatever writes to it - for its version, the position of the cursor, the
title of its window - on the same descriptor as the keyboard. Such answers, and the keys that are not
characters, are escape sequences (ECMA-48). An answer of the user's must not be made of their letters.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

_ESCAPE: Final = 0x1B
_BELL: Final = 0x07
_STRINGS: Final = frozenset(b"P]X^_")
"""Behind ESC they begin a string that ends with ESC \\, or with BEL: DCS, OSC, SOS, PM, APC."""
_C1_STRINGS: Final = frozenset((0x90, 0x98, 0x9D, 0x9E, 0x9F))
"""The same in one byte, where somebody has asked the terminal to send 8-bit controls (S8C1T)."""
_C1_SEQUENCE: Final = 0x9B
_C1_SINGLE: Final = 0x8F
_C1_END: Final = 0x9C
_MOUSE_BYTES: Final = 3
"""Behind `CSI M` without parameters: button, column and row of the mouse, which may be letters (xterm)."""


class _State(Enum):
    TEXT = auto()
    ESCAPE = auto()
    SEQUENCE = auto()
    SINGLE = auto()
    STRING = auto()
    STRING_ESCAPE = auto()
    MOUSE = auto()


class EscapeFilter:
    """Takes everything that comes from a terminal, in order, and gives what was typed as text.

    It must see all input, also what is not asked for: a sequence may have begun before.
    """

    def __init__(self) -> None:
        self._state = _State.TEXT
        self._has_parameters = False
        self._mouse_bytes = 0
        self._continuation_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of `data` that are not part of an escape sequence."""
        return bytes(byte for byte in data if self._is_text(byte))

    def _is_text(self, byte: int) -> bool:
        match self._state:
            case _State.TEXT:
                return self._text(byte)
            case _State.ESCAPE:
                self._begin(byte)
            case _State.SEQUENCE:
                self._sequence(byte)
            case _State.SINGLE:
                self._state = _State.TEXT
            case _State.STRING:
                if byte in (_BELL, _C1_END):
                    self._state = _State.TEXT
                elif byte == _ESCAPE:
                    self._state = _State.STRING_ESCAPE
            case _State.STRING_ESCAPE:
                # Anything but the end of the string is the beginning of another sequence.
                self._begin(byte)
            case _State.MOUSE:
                self._mouse_bytes -= 1
                if not self._mouse_bytes:
                    self._state = _State.TEXT
        return False

    def _text(self, byte: int) -> bool:
        # Within a character of UTF-8 these bytes are no controls.
        if self._continuation_bytes and 0x80 <= byte < 0xC0:
            self._continuation_bytes -= 1
            return True
        self._continuation_bytes = 0
        if byte == _ESCAPE:
            self._state = _State.ESCAPE
        elif byte == _C1_SEQUENCE:
            self._begin(ord("["))
        elif byte == _C1_SINGLE:
            self._state = _State.SINGLE
        elif byte in _C1_STRINGS:
            self._state = _State.STRING
        else:
            self._continuation_bytes = 3 if byte >= 0xF0 else 2 if byte >= 0xE0 else 1 if byte >= 0xC0 else 0
            return True
        return False

    def _begin(self, byte: int) -> None:
        if byte == ord("["):
            self._state = _State.SEQUENCE
            self._has_parameters = False
        elif byte == ord("O"):
            self._state = _State.SINGLE
        elif byte in _STRINGS:
            self._state = _State.STRING
        elif byte != _ESCAPE:
            # A key with Alt, or the end of a string.
            self._state = _State.TEXT

    def _sequence(self, byte: int) -> None:
        if byte == _ESCAPE:
            self._state = _State.ESCAPE
        elif not 0x40 <= byte <= 0x7E:
            self._has_parameters = True
        elif byte == ord("M") and not self._has_parameters:
            self._state, self._mouse_bytes = _State.MOUSE, _MOUSE_BYTES
        else:
            self._state = _State.TEXT

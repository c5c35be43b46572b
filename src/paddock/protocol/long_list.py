"""Writes an answer that ends with a list, element by element, so that a long one takes many short moments.

An answer may list thousands of processes, and writing all at once would hold up everybody else.
"""

from __future__ import annotations

from typing import Any, Final

from paddock.protocol.codec import write_json

_EMPTY: Final = b"[]"


class LongList:
    """One message, given with an empty list before the ends of its objects; `add` fills the list."""

    def __init__(self, message: bytes) -> None:
        self._message = bytearray()
        self._ends: list[bytes] = []
        self._has_element = False
        self._begin(message)

    def add(self, element: Any) -> None:
        """Append an element."""
        self._separate()
        self._message += write_json(element)

    def begin(self, element: Any) -> None:
        """Append an element that ends with an empty list itself, and fill that list until `end`."""
        self._separate()
        self._begin(write_json(element))

    def end(self) -> None:
        """Go back to the list that the element belongs to."""
        self._message += self._ends.pop()
        self._has_element = True

    def finish(self) -> bytearray:
        """Return the whole message."""
        self.end()
        return self._message

    def _begin(self, text: bytes) -> None:
        # Behind the last empty list are only the ends of objects: strings are before it.
        at = text.rindex(_EMPTY) + 1
        self._message += text[:at]
        self._ends.append(text[at:])
        self._has_element = False

    def _separate(self) -> None:
        if self._has_element:
            self._message += b","
        self._has_element = True

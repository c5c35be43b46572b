"""Reads variables from git's settings as `git_parse_source` in its config.c does.

It knows no sections and follows no includes: `core.worktree` is in one section only, and git takes it from
the repository's own files alone. Pure.
"""

from __future__ import annotations

from typing import Final

_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = b" \t"
_SPACE_IN_LINE: Final = b" \t\r"
_SPACE: Final = _SPACE_IN_LINE + b"\n"
"""What git calls space: neither vertical tabs nor form feeds."""
_COMMENT: Final = b"#;"
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_KEY: Final = _LETTERS + b"0123456789-"
_ESCAPED: Final = {b"t": b"\t", b"b": b"\b", b"n": b"\n", b"\\": b"\\", b'"': b'"', b"\n": b"", b"": b""}
"""What follows a backslash in a value, and what it stands for. An escaped end of line continues the value."""


class UnreadableSettings(Exception):
    """The text is not git's settings: git itself refuses to work with it."""


def values_of(name: bytes, text: bytes) -> tuple[bytes, ...]:
    """Return each value that a variable of this lower-case name has, whatever its section.

    Space within a value appears as written and as blanks: versions of git before 2.45 read blanks. Raises
    UnreadableSettings.
    """
    if name not in text.lower():
        return ()
    reader = _Reader(text.removeprefix(_BOM).replace(b"\r\n", b"\n"))
    found: dict[bytes, None] = {}
    while character := reader.next():
        if character in _COMMENT:
            reader.skip_line()
        elif character == b"[":
            reader.skip_section()
        elif character in _LETTERS:
            key = (character + reader.take(_KEY)).lower()
            reader.take(_BLANKS)
            sign = reader.next()
            if sign == b"=":
                values = reader.value()
                found.update(dict.fromkeys(values if key == name else ()))
            elif sign not in (b"", b"\n"):
                raise UnreadableSettings
        elif character not in _SPACE:
            raise UnreadableSettings
    return tuple(found)


class _Reader:
    """A place in a text. At its end the next character is empty."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._place = 0

    def next(self) -> bytes:
        self._place += 1
        return self._text[self._place - 1 : self._place]

    def take(self, characters: bytes) -> bytes:
        """Return the characters of this kind that come next."""
        start = self._place
        while (character := self._text[self._place : self._place + 1]) and character in characters:
            self._place += 1
        return self._text[start : self._place]

    def skip_line(self) -> None:
        end = self._text.find(b"\n", self._place)
        self._place = len(self._text) if end < 0 else end

    def skip_section(self) -> None:
        """Go past the head of a section: `name]`, or `name "any text"]`."""
        self.take(_KEY + b".")
        character = self.next()
        if character != b"]":
            self.take(_SPACE_IN_LINE)
            if character not in _SPACE_IN_LINE or self.next() != b'"':
                raise UnreadableSettings
            while (character := self.next()) != b'"':
                if character == b"\\":
                    character = self.next()
                if character in (b"", b"\n"):
                    raise UnreadableSettings
            character = self.next()
        if character != b"]":
            raise UnreadableSettings

    def value(self) -> tuple[bytes, bytes]:
        """Return a value with the space in it as written, and with a blank for each character of it."""
        written, blank = bytearray(), bytearray()
        space = b""
        is_quoted = False
        while (character := self.next()) not in (b"", b"\n"):
            if not is_quoted and character in _SPACE:
                space += character if written else b""
                continue
            if not is_quoted and character in _COMMENT:
                self.skip_line()
                continue
            written += space
            blank += b" " * len(space)
            space = b""
            if character == b'"':
                is_quoted = not is_quoted
                continue
            if character == b"\\":
                escaped = _ESCAPED.get(self.next())
                if escaped is None:
                    raise UnreadableSettings
                character = escaped
            written += character
            blank += character
        if is_quoted:
            raise UnreadableSettings
        # For git a value ends at a NUL.
        return bytes(written).partition(b"\0")[0], bytes(blank).partition(b"\0")[0]

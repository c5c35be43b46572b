"""Large base64 members of a message, taken past the JSON parser.

Most of the bytes of a busy connection are one string per message: a chunk of
output or of input. A vectorised base64 handles it in a twentieth of the time that
the JSON library takes, so a large chunk is spliced into an outgoing message, and
lifted out of an incoming one, without being parsed. Whatever looks unusual is left
to the ordinary way.
"""

from __future__ import annotations

import binascii
from typing import Any

from msgspec import Struct
from pybase64 import b64decode, b64encode

BULK_BYTES = 1024
"""Below this the detour costs more than it saves."""

_OPENINGS = {"chunk": b'"chunk":"', "dataBase64": b'"dataBase64":"'}
"""The members that hold bulk data, and how they begin in a message."""

_EMPTY_CHUNK = b'"chunk":""'

_MARK = b"<bulk\x7f>"
MARK = _MARK.decode()
"""What stands in place of a lifted chunk. It is not base64, so no honest chunk looks like it."""

# Symbols whose low four, or two, bits are zero: what may stand before two signs of padding, or one.
_LAST_BEFORE_TWO = b"AQgw"
_LAST_BEFORE_ONE = b"AEIMQUYcgkosw048"


def splice(message: bytes, chunk: bytes) -> bytes:
    """Put `chunk` into a message that holds one empty chunk: `…"chunk":""…`."""
    # No string of the message looks like this: quotes inside of one are escaped.
    start = message.index(_EMPTY_CHUNK) + len(_EMPTY_CHUNK) - 1
    return b"".join((message[:start], b64encode(chunk), message[start:]))


class Splicing:
    """The same, piece by piece, for a message that ends with an empty string and two braces."""

    def __init__(self, message: bytes) -> None:
        self._message = bytearray(message[:-3])
        self._end = message[-3:]

    def add(self, piece: bytes) -> None:
        """Put a piece behind the others; every one but the last must have a multiple of three bytes."""
        self._message += b64encode(piece)

    def finish(self) -> bytearray:
        """The whole message."""
        self._message += self._end
        return self._message


class Lifted(Struct, frozen=True):
    """A message without its chunk, which is replaced by `MARK`; the member that it was, and the chunk."""

    rest: bytes
    member: str
    chunk: bytes

    def put_into(self, value: Any) -> bool:
        """Put the chunk in the place of the mark, if that is where `value` has this member."""
        if type(value) is dict and value.get(self.member) == MARK:
            value[self.member] = self.chunk
            return True
        return False

    def restore(self, part: bytes) -> bytes:
        """Part of the rest as it was in the message."""
        return part.replace(_MARK, b64encode(self.chunk))


def lift(message: bytes) -> Lifted | None:
    """Take the chunk out of a message, or None if there is no large and strictly encoded one."""
    for member, opening in _OPENINGS.items():
        found = message.find(opening)
        if found >= 0:
            return _lift_at(message, member, found + len(opening))
    return None


def _lift_at(message: bytes, member: str, start: int) -> Lifted | None:
    end = message.find(b'"', start)
    if end - start < BULK_BYTES:
        return None
    rest = b"".join((message[:start], _MARK, message[end:]))
    # A message that holds the mark itself could pass something else off as its chunk.
    if rest.count(_MARK) != 1 or not is_canonical(message[end - 4 : end]):
        return None
    try:
        return Lifted(rest, member, b64decode(memoryview(message)[start:end], validate=True))
    except binascii.Error:
        return None


def is_canonical(encoded: bytes) -> bool:
    """Whether the bits that padding leaves over are zero (RFC 4648, 3.5). The last four symbols tell."""
    if not encoded.endswith(b"="):
        return True
    if encoded.endswith(b"=="):
        return encoded[-3:-2] in _LAST_BEFORE_TWO
    return encoded[-2:-1] in _LAST_BEFORE_ONE

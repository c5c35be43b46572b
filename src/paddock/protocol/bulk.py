"""Large base64 members of a message, taken past the JSON parser.

Most of the bytes of a busy connection are one string per message: a chunk of
output or of input. A vectorised base64 handles it in a twentieth of the time that
the JSON library takes, so a large chunk is spliced into an outgoing message, and
lifted out of an incoming one, without being parsed. Whatever looks unusual is left
to the ordinary way.
"""

from __future__ import annotations

import binascii

from msgspec import Struct
from pybase64 import b64decode, b64encode

BULK_BYTES = 1024
"""Below this the detour costs more than it saves."""

MEMBER = "chunk"
"""The member that holds bulk data, in every message that has any."""

_OPENING = b'"chunk":"'
_MARK = b"<bulk\x7f>"
MARK = _MARK.decode()
"""What stands in place of a lifted chunk. It is not base64, so no honest chunk looks like it."""

# Symbols whose low four, or two, bits are zero: what may stand before two signs of padding, or one.
_LAST_BEFORE_TWO = b"AQgw"
_LAST_BEFORE_ONE = b"AEIMQUYcgkosw048"


def splice(message: bytes, chunk: bytes) -> bytes:
    """Put `chunk` into a message that ends with an empty chunk and two braces: `…"chunk":""}}`."""
    return b"".join((message[:-3], b64encode(chunk), message[-3:]))


class Lifted(Struct, frozen=True):
    """A message without its chunk, which is replaced by `MARK`, and the chunk."""

    rest: bytes
    chunk: bytes


def lift(message: bytes) -> Lifted | None:
    """Take the chunk out of a message, or None if there is no large and strictly encoded one."""
    start = message.find(_OPENING)
    if start < 0:
        return None
    start += len(_OPENING)
    end = message.find(b'"', start)
    if end - start < BULK_BYTES:
        return None
    rest = b"".join((message[:start], _MARK, message[end:]))
    # A message that holds the mark itself could pass something else off as its chunk.
    if rest.count(_MARK) != 1 or not is_canonical(message[end - 4 : end]):
        return None
    try:
        return Lifted(rest, b64decode(memoryview(message)[start:end], validate=True))
    except binascii.Error:
        return None


def is_canonical(encoded: bytes) -> bool:
    """Whether the bits that padding leaves over are zero (RFC 4648, 3.5). The last four symbols tell."""
    if not encoded.endswith(b"="):
        return True
    if encoded.endswith(b"=="):
        return encoded[-3:-2] in _LAST_BEFORE_TWO
    return encoded[-2:-1] in _LAST_BEFORE_ONE

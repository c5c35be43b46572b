"""Large base64 members of a message, taken past the JSON parser.

Most of the bytes of a busy connection are one string per message: a chunk of
output or of input. A vectorised base64 handles it in a twentieth of the time that
the JSON library takes, so a large chunk is spliced into an outgoing message, and
lifted out of an incoming one, without being parsed. Whatever looks unusual is left
to the ordinary way.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass

from pybase64 import b64decode, b64encode

BULK_BYTES = 1024
"""Below this the detour costs more than it saves."""

MEMBER = "chunk"
"""The member that holds bulk data, in every message that has any."""

_OPENING = b'"chunk":"'
_MARK = b"<bulk\x7f>"
MARK = _MARK.decode()
"""What stands in place of a lifted chunk. It is not base64, so no honest chunk looks like it."""


def splice(message: bytes, chunk: bytes) -> bytes:
    """Put `chunk` into a message that ends with an empty chunk and two braces: `…"chunk":""}}`."""
    return b"".join((message[:-3], b64encode(chunk), message[-3:]))


@dataclass(frozen=True, slots=True)
class Lifted:
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
    if rest.count(_MARK) != 1:
        return None
    encoded = message[start:end]
    try:
        chunk = b64decode(encoded, validate=True)
    except binascii.Error:
        return None
    return Lifted(rest, chunk) if is_canonical(encoded) else None


def is_canonical(encoded: bytes) -> bool:
    """Whether the bits that padding leaves over are zero (RFC 4648, section 3.5)."""
    return not encoded.endswith(b"=") or b64encode(b64decode(encoded[-4:])) == encoded[-4:]

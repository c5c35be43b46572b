"""Large base64 members of a message, written past the JSON library.

Most of the bytes of a busy connection are one string per message: a chunk of
output or of input. A vectorised base64 handles it in a twentieth of the time that
the JSON library takes, so a large chunk is spliced into an outgoing message
without being encoded as JSON. `plain_message` is the opposite.
"""

from __future__ import annotations

import pybase64

BULK_BYTES = 1024
"""Below this the detour costs more than it saves."""

_EMPTY_CHUNK = b'"chunk":""'


def splice(message: bytes, chunk: bytes) -> bytes:
    """Put `chunk` into a message that holds one empty chunk: `…"chunk":""…`."""
    # No string of the message contains this: quotes inside a string are escaped.
    start = message.index(_EMPTY_CHUNK) + len(_EMPTY_CHUNK) - 1
    return b"".join((message[:start], pybase64.b64encode(chunk), message[start:]))


class Splicing:
    """The same, piece by piece, for a message that ends with an empty string and two braces."""

    def __init__(self, message: bytes) -> None:
        self._message = bytearray(message[:-3])
        self._end = message[-3:]

    def add(self, piece: bytes | bytearray) -> None:
        """Append a piece; the size of every one but the last must be a multiple of three bytes."""
        self._message += pybase64.b64encode(piece)

    def finish(self) -> bytearray:
        """Return the whole message."""
        self._message += self._end
        return self._message

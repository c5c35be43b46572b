"""Messages that are long because of the data in them.

Reading a message as JSON takes up to 6 ms for each MiB, in which the server serves nobody else. Only base64
has a reason to be longer than a few MiB: this module cuts it out and decodes it straight from the message,
ten times as fast, and reads the text before and after it like any other message. It refuses a message that
is long for another reason without reading it through.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import structs

from paddock.errors import MalformedMessage
from paddock.protocol.codec import CodecLimits, base64_fields
from paddock.protocol.envelope import Request, RequestId, read_message
from paddock.protocol.methods import METHODS

BEGINNING_BYTES: Final = 512
"""How far to look for id and method of a request: twice the longest id."""

_BEGINNING: Final = (
    rb"""\s*\{\s*"id"\s*:\s*(?:(?P<number>-?[0-9]{1,18})|"(?P<text>[ !#-[\]-~]{0,256})")"""
    rb'''\s*,\s*"method"\s*:\s*"'''
)

REST_SHARE: Final = 8
"""The text before the data has at most this part of `max_text_bytes`, 1 MiB; so has the text after it."""


def read_large(message: bytes | memoryview, limits: CodecLimits) -> Request:
    """Read a request of more than `max_text_bytes`; its data is a view of the message, still encoded.

    Raises MalformedMessage for any other.
    """
    begin, end = _find_data(message, limits)
    before, behind = bytes(message[:begin]), bytes(message[end:])
    # No other string of the message can be as long, in whatever form.
    stand_in = b"=" * (len(before) + len(behind) + 1)
    request = read_message(b"".join((before, stand_in, behind)), limits)
    if not isinstance(request, Request) or type(request.params) is not dict:
        raise _too_long(limits)
    method = METHODS.get(request.method)
    for name in base64_fields(method.params) if method is not None else ():
        value = request.params.get(name)
        # Anywhere else the reader would accept it unchecked.
        if type(value) is str and len(value) == len(stand_in):
            data = memoryview(message)[begin:end]
            return structs.replace(request, params=request.params | {name: data})
    raise _too_long(limits)


def id_of(message: bytes | memoryview) -> RequestId | None:
    """Return the id of an unread request, if it begins as clients write one: with id and method."""
    found = re.match(_BEGINNING, bytes(message[:BEGINNING_BYTES]))
    if found is None:
        return None
    return int(found["number"]) if found["number"] else found["text"].decode("ascii")


def _find_data(message: bytes | memoryview, limits: CodecLimits) -> tuple[int, int]:
    """Return the bounds of the string that reaches from near the beginning to near the end.

    Does not examine the text between its quotes. If that holds another quote or an escape, it is not base64;
    if the quotes are not those of one string, the rest of the message is not JSON.
    """
    rest_bytes = limits.max_text_bytes // REST_SHARE
    begin = bytes(message[:rest_bytes]).rfind(b'"') + 1
    end = bytes(message[-rest_bytes:]).find(b'"')
    if begin == 0 or end < 0 or message[begin - 2 : begin - 1] == b"\\":
        raise _too_long(limits)
    return begin, len(message) - rest_bytes + end


def _too_long(limits: CodecLimits) -> MalformedMessage:
    return MalformedMessage(
        f"the message has more than {limits.max_text_bytes} bytes that are not base64 data"
    )

"""Requests as clients write them, read in one pass.

A compiled scanner finds the parts of a request, the parameters are decoded straight into their type, and a
long chunk of base64 straight from the message. That takes half of the time of the ordinary way, by `envelope`
and `codec`, which is for whatever is unusual, wrong or refused, and for everything where the scanner could
not be compiled. Both ways read alike; nobody can tell from the outside which one it was.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable

from msgspec import DecodeError, Struct, json
from msgspec.structs import fields, force_setattr
from pybase64 import b64decode

from paddock.protocol.call import Call
from paddock.protocol.codec import NO_PARAMS, CodecLimits, binary_fields, from_wire
from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.methods import INITIALIZE, METHODS, Method
from paddock.protocol.structure import NoParams, Params

Scan = Callable[[bytes | memoryview, int, int], tuple[int | str, str, bytes | None, int, int] | None]
"""Finds id, method, parameters without their chunk if it is long, and where that begins and ends."""


def find_nothing(message: bytes | memoryview, max_values: int, max_depth: int, /) -> None:
    """Leave every message to the ordinary way."""


scan: Scan
try:
    from paddock.protocol import _scanner
except ImportError:
    scan = find_nothing
else:
    scan = _scanner.scan


_LATE_CHUNK = "data_base64"
"""The one that is checked when it is used; see `late_base64`."""


class _Reader(Struct, frozen=True):
    """How the parameters of a method are read."""

    method: Method
    decode: Callable[[bytes], Params]
    chunk: str | None
    """The field that holds base64."""


_readers: dict[str, _Reader] = {}
"""Of the methods that were called: to make one takes longer than to use it often."""


def read_plain(message: bytes | memoryview, limits: CodecLimits) -> Call | None:
    """A good request; None leaves the message to the ordinary way.

    Never gives a method that is not offered to everybody, or not at every moment.
    """
    found = scan(message, limits.max_values, limits.max_depth)
    if found is None:
        return None
    request_id, name, encoded, begin, end = found
    try:
        reader = _readers[name]
    except KeyError:
        made = _make_reader(name)
        if made is None:
            return None
        reader = made
    if encoded is None:
        is_good = reader.method.params is NoParams
        return Call(request_id, reader.method, NO_PARAMS, len(message)) if is_good else None
    try:
        params = reader.decode(encoded)
        if begin >= 0:
            # A chunk where none belongs is ignored if it is good JSON, and to know that it has to be read.
            if reader.chunk is None:
                return None
            chunk = b64decode(memoryview(message)[begin:end], validate=True)
            # The parameters are nobody else's yet.
            force_setattr(params, reader.chunk, LateBase64(chunk) if reader.chunk is _LATE_CHUNK else chunk)
    except (DecodeError, binascii.Error):
        return None
    return Call(request_id, reader.method, params, len(message))


def _make_reader(name: str) -> _Reader | None:
    method = METHODS.get(name)
    if method is None or method.result is None or method.is_operators or name == INITIALIZE:
        return None
    # Other base64 would have to be checked like a chunk.
    if not binary_fields(method.params) <= {"chunk"}:
        return None
    # The scanner finds a chunk by either name and does not tell which it was: a required one is missed then.
    required = {field.name for field in fields(method.params) if field.required}
    chunk = next((name for name in ("chunk", _LATE_CHUNK) if name in required), None)
    reader = _Reader(method, json.Decoder(method.params, dec_hook=from_wire).decode, chunk)
    _readers[name] = reader
    return reader

"""Requests in plain JSON, whose parameters are decoded straight into their type.

That takes half the time of the ordinary way, by `envelope` and `codec`, which handles
requests that are unusual, wrong or refused. See `plain_message`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import DecodeError, Struct, json

from paddock.protocol.bound import MAX_NAME_CHARS
from paddock.protocol.call import Call
from paddock.protocol.codec import NO_PARAMS, CodecLimits, from_wire
from paddock.protocol.methods import METHODS, Method
from paddock.protocol.plain_message import scan, with_base64
from paddock.protocol.structure import NoParams, Params


class _Reader(Struct, frozen=True):
    """How the parameters of a method are read."""

    method: Method
    decode: Callable[[bytes], Params]
    may_be_absent: bool


_readers: dict[str | None, _Reader] = {}
"""Readers of the methods that were called: making one takes longer than many uses of it."""


def read_plain(message: bytes | memoryview, limits: CodecLimits) -> Call[Params] | None:
    """Return a good request; None leaves the message to the ordinary way.

    Never returns a method that only some clients may call, or only at some times.
    """
    found = scan(message, limits.max_values, limits.max_depth)
    if found is None:
        return None
    request_id, name, body, left_out = found
    if request_id is None or (isinstance(request_id, str) and len(request_id) > MAX_NAME_CHARS):
        return None
    try:
        reader = _readers[name]
    except KeyError:
        made = _make_reader(name)
        if made is None:
            return None
        reader = made
    if body is None:
        return Call(request_id, reader.method, NO_PARAMS, len(message)) if reader.may_be_absent else None
    bulk_bytes = 0
    try:
        params = reader.decode(body)
        if left_out is not None:
            params = with_base64(params, left_out, message)
            bulk_bytes = left_out[2] - left_out[1]
    except (DecodeError, ValueError):
        return None
    return Call(request_id, reader.method, params, len(message), bulk_bytes)


def _make_reader(name: str | None) -> _Reader | None:
    method = METHODS.get(name) if name is not None else None
    if method is None or not method.is_for_all:
        return None
    kind = method.params
    decode = json.Decoder(kind, dec_hook=from_wire).decode
    _readers[name] = reader = _Reader(method, decode, may_be_absent=kind is NoParams)
    return reader

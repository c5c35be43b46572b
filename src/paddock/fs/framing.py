"""Operations and answers as bytes, between a server and its worker. Pure.

A frame is a length in four bytes, little-endian, and that much MessagePack: a number chosen by the server
with an operation, or the same number with its answer. Answers come in any order.
"""

from __future__ import annotations

import struct

from msgspec import Struct, msgpack

from paddock.fs.answer import AnyAnswer
from paddock.fs.operation import AnyOperation

MAX_FRAME_BYTES = 80 * 1024 * 1024
"""The largest operation writes the content of one message, 48 MiB; the largest answer lists a directory of
50000 entries of 255 bytes, 13 MiB."""

MAX_IN_FLIGHT = 64
"""Operations that a worker has at once. The next is neither sent nor read until one is answered."""

HEADER = struct.Struct("<I")

NOT_BEGUN = 0
"""Not the number of any request: its reply says why the worker will serve none."""


class Request(Struct, frozen=True, array_like=True):
    """An operation to be carried out."""

    number: int
    operation: AnyOperation


class Reply(Struct, frozen=True, array_like=True):
    """The outcome of a request."""

    number: int
    answer: AnyAnswer


_encoder = msgpack.Encoder()
_request_decoder = msgpack.Decoder(Request)
_reply_decoder = msgpack.Decoder(Reply)


def write_frame(message: Request | Reply) -> bytearray:
    """Return the bytes of a message."""
    frame = bytearray(HEADER.size)
    _encoder.encode_into(message, frame, HEADER.size)
    HEADER.pack_into(frame, 0, len(frame) - HEADER.size)
    return frame


def read_length(header: bytes) -> int:
    """Read from a header how many bytes follow it. Raises ValueError beyond the limit."""
    (length,) = HEADER.unpack(header)
    if length > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}")
    return int(length)


def read_request(body: bytes) -> Request:
    """Decode the request in a frame. Raises msgspec.DecodeError."""
    return _request_decoder.decode(body)


def read_reply(body: bytes) -> Reply:
    """Decode the reply in a frame. Raises msgspec.DecodeError."""
    return _reply_decoder.decode(body)

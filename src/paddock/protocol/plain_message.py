"""Messages as both sides write them, taken apart without being parsed.

A compiled scanner finds the parts of a message in plain JSON: no escapes, no key twice,
within limits. A string that may be base64 it leaves out: that is decoded straight from the
message, strictly, and if it is long in a twentieth of the time that the JSON library takes.
Whatever is unusual, and everything where the scanner could not be compiled, is left to
the ordinary way. Both ways read alike; nobody can tell from the outside which one it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, structs

from paddock.protocol.codec import base64_fields
from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.strict_base64 import decode_base64

S = TypeVar("S", bound=Struct)

LeftOut = tuple[str, int, int]
"""The key of a string, and where it begins and ends in the message."""

Parts = tuple[int | str | None, str | None, bytes | None, LeftOut | None]
"""Id, method, parameters or result, and what was left out of those. What is not there is None."""

Scan = Callable[[bytes | memoryview, int, int], Parts | None]
"""Finds the parts of a plain message of at most so many values, nested at most so deep."""


def find_nothing(message: bytes | memoryview, max_values: int, max_depth: int, /) -> None:
    """Leave every message to the ordinary way."""


scan: Scan
try:
    from paddock.protocol import _scanner
except ImportError:
    scan = find_nothing
else:
    scan = _scanner.scan


def with_base64(body: S, left_out: LeftOut, message: bytes | memoryview) -> S:
    """Return the same with what was left out. Raises ValueError if that should not or can't be base64."""
    key, begin, end = left_out
    field = base64_fields(type(body)).get(key)
    if field is None:
        raise ValueError(f"{key!r} may be anything: it was not looked into")
    data = decode_base64(memoryview(message)[begin:end])
    return structs.replace(body, **{field.name: LateBase64(data) if field.is_late else data})

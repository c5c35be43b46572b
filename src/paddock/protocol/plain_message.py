"""Splits messages in their usual form into parts, without parsing them.

A compiled scanner finds the parts of a message in plain JSON: no escapes, no key twice,
within limits. It leaves out a string that may be base64: Paddock decodes that straight from the
message, strictly, and if it is long in a twentieth of the time that the JSON library takes.
Unusual messages, and all messages where the scanner could not be compiled, go the ordinary
way. Both ways give the same result; no difference shows from the outside.
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
"""Id, method, parameters or result, and what the scanner left out of those. A missing part is None."""

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
    """Put the left-out strings back, decoded. Raises ValueError if one should not or can't be base64."""
    key, begin, end = left_out
    field = base64_fields(type(body)).get(key)
    if field is None:
        raise ValueError(f"{key!r} may be anything: it was not looked into")
    data = decode_base64(memoryview(message)[begin:end])
    return structs.replace(body, **{field.name: LateBase64(data) if field.is_late else data})

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

Parts = tuple[int | str | None, str | None, bytes | None, str | None, int, int]
"""Id, method, parameters or result, the key of the string that was left out of those, and where it begins and
ends. What is not there is None."""

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


def with_base64(body: S, key: str, encoded: memoryview) -> S:
    """Give the same with what was left out. Raises ValueError if that should not or can't be base64."""
    field = base64_fields(type(body)).get(key)
    if field is None:
        raise ValueError(f"{key!r} may be anything: it was not looked into")
    data = decode_base64(encoded)
    return structs.replace(body, **{field.name: LateBase64(data) if field.is_late else data})

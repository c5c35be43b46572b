"""Base64 as RFC 4648 wants it: complete, padded, and nothing else in between."""

from __future__ import annotations

import pybase64

_LAST_SYMBOLS = (b"", b"AQgw", b"AEIMQUYcgkosw048")
"""Symbols allowed before padding, by the number of bytes in the last group: unused bits are zero (3.5)."""


def decode_base64(encoded: bytes | memoryview) -> bytes:
    """Return the data. Raises ValueError that says what is wrong."""
    try:
        data = pybase64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise ValueError(f"invalid base64: {error}") from error
    beyond = len(data) % 3
    if beyond and encoded[beyond - 4] not in _LAST_SYMBOLS[beyond]:
        raise ValueError("invalid base64: the last symbol has bits that mean nothing")
    return data

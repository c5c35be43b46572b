"""Base64 that is checked when it is used, and not when the parameters are.

The reference protocol refuses bad base64 in most places as bad parameters, and in
`fs/writeFile` as a bad request. What came past the JSON parser is decoded already.
"""

from __future__ import annotations

import binascii

from pybase64 import b64decode, b64encode

from paddock.protocol.bulk import is_canonical


class LateBase64:
    """Data as it was written, or decoded already."""

    # Not a dataclass: msgspec would read those as JSON objects instead of asking the codec's hook.
    __slots__ = ("_given",)

    def __init__(self, given: str | bytes) -> None:
        self._given = given

    def decode(self) -> bytes:
        """The data. Raises ValueError that says what is wrong."""
        if isinstance(self._given, bytes):
            return self._given
        try:
            data = b64decode(self._given, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"invalid base64: {error}") from error
        if not is_canonical(self._given.encode()):
            raise ValueError("invalid base64: the last symbol has bits that mean nothing")
        return data

    @property
    def text(self) -> str:
        """The data in base64."""
        return self._given if isinstance(self._given, str) else b64encode(self._given).decode("ascii")

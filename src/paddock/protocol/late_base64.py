"""Base64 that is checked on use, and not together with the parameters.

The reference protocol refuses bad base64 in most places as bad parameters, but in
`fs/writeFile` as a bad request. Data that bypassed the JSON parser is already decoded.
"""

from __future__ import annotations

import pybase64

from paddock.protocol.strict_base64 import decode_base64


class LateBase64:
    """Data as the client wrote it, or decoded, or the fault in it."""

    # Not a dataclass: msgspec would read those as JSON objects instead of asking the codec's hook.
    __slots__ = ("_given",)

    def __init__(self, given: str | bytes | ValueError) -> None:
        self._given = given

    def decode(self) -> bytes:
        """Return the data. Raises ValueError that says what is wrong."""
        if isinstance(self._given, ValueError):
            raise self._given
        return self._given if isinstance(self._given, bytes) else decode_base64(self._given.encode())

    @property
    def text(self) -> str:
        """Return the data in base64."""
        return (
            self._given if isinstance(self._given, str) else pybase64.b64encode(self.decode()).decode("ascii")
        )

"""Follows the records of TLS in a stream of bytes, so that a reader can take a bounded number at once. Pure.

A record may be 22 bytes long and still cost as much as one of 16 KiB: for each change of keys (RFC 8446,
4.6.3) a library computes new ones, and it reads on by itself until there is data.
"""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 5
"""The type, the version and the length of a record."""

_LENGTH_AT: Final = 3


class TlsRecords:
    """The place in a stream, which is given piece by piece, each from where the last one was taken to."""

    def __init__(self) -> None:
        self._left_bytes = 0
        """Bytes that the record still has."""

    def has_more(self, data: bytes | bytearray) -> bool:
        """Return whether `take` would take anything."""
        return len(data) >= (1 if self._left_bytes else HEAD_BYTES)

    def take(self, data: bytes | bytearray, limit: int) -> int:
        """Return how many bytes belong to the next `limit` records.

        The last may be incomplete, but for its head: that is not taken before it is whole.
        """
        at = 0
        for _ in range(limit):
            if not self._left_bytes:
                if len(data) - at < HEAD_BYTES:
                    break
                self._left_bytes = HEAD_BYTES + int.from_bytes(data[at + _LENGTH_AT : at + HEAD_BYTES])
            size = min(self._left_bytes, len(data) - at)
            at += size
            self._left_bytes -= size
            if self._left_bytes:
                break
        return at

"""Hands what an HTTPS server sends to the TLS of the HTTP library, a bounded number of records in each turn.

The library decrypts all that one read brings before it lets go of the loop. Of the smallest records those are
two thousand, each of which may change the keys, and no data comes of them that anybody would wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from anyio.abc import ByteStream

from paddock.fetch.turn import Turn
from paddock.tls_records import TlsRecords

RECORDS_PER_TURN: Final = 64
"""About a millisecond, if each changes the keys. One read has five if they are full."""

READ_BYTES: Final = 64 * 1024


class RecordStream(ByteStream):
    """A connection to a server, below TLS."""

    def __init__(self, stream: ByteStream, turn: Turn) -> None:
        self._stream = stream
        self._turn = turn
        self._records = TlsRecords()
        self._kept = bytearray()

    @property
    def has_kept(self) -> bool:
        """Return whether something has come that was not handed over."""
        return bool(self._kept)

    async def receive(self, max_bytes: int = READ_BYTES) -> bytes:
        """Return the next records, or what has come of one."""
        while not self._records.has_more(self._kept):
            self._kept += await self._stream.receive(max_bytes)
        await self._turn()
        size = self._records.take(self._kept, RECORDS_PER_TURN)
        data = bytes(self._kept[:size])
        del self._kept[:size]
        return data

    async def send(self, item: bytes) -> None:
        """Send."""
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """Send nothing more."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """End the connection."""
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Return those of the connection."""
        return self._stream.extra_attributes

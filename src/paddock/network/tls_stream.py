"""TLS on one connection of the proxy, as either end, with the data inside readable and writable.

Memory is bounded as that of the wire below: nothing is taken from it before somebody wants to receive. So is
the work of one turn: a change of keys costs as much as 16 KiB of data, and is 27 bytes long.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from paddock.errors import ProxyRequestError
from paddock.network.wire import Wire
from paddock.tls_records import TlsRecords

RECEIVED_BYTES: Final = 256 * 1024
"""How many bytes are decrypted at once."""

RECORDS_PER_TURN: Final = 64
"""Records that are read in one turn: about a millisecond, if each changes the keys."""

HANDSHAKE_TIMEOUT_S: Final = 15.0


class TlsStream:
    """A `Stream` over a wire, which is its own from now on. `shake_hands` first.

    With a `host` it is the client's end, and the other end must prove to be that host.
    """

    def __init__(self, wire: Wire, context: ssl.SSLContext, host: str | None = None) -> None:
        self._wire = wire
        self.lost: asyncio.Future[None] = wire.lost
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._records = TlsRecords()
        self._kept = bytearray()
        """What has come and is not read."""
        self._received = b""
        self._is_at_end = False
        self._has_ended = False

    async def shake_hands(self) -> None:
        """Agree on keys, and verify the other end if it is a server. Raises ProxyRequestError."""
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                while not self._has_shaken_hands():
                    await self._flush()
                    if not await self._take_more():
                        raise ProxyRequestError("it ends in the middle of a TLS handshake")
                    await self._wire.turn()
            await self._flush()
        except ssl.SSLCertVerificationError as error:
            raise ProxyRequestError(f"its certificate is not valid: {error.verify_message}") from error
        except ssl.SSLError as error:
            # The alert says why, to whoever can read it.
            self._flush_now()
            raise ProxyRequestError(f"it does not speak TLS as it should: {error.reason}") from error
        except TimeoutError as error:
            raise ProxyRequestError("it does not end its TLS handshake") from error

    def _has_shaken_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def turn(self) -> None:
        """Wait until there is time for another piece of work for this connection."""
        await self._wire.turn()

    @property
    def is_at_end(self) -> bool:
        """Return whether the other end will send nothing more, as far as can be told by now."""
        if not self._received and not self._is_at_end:
            self._kept += self._wire.receive_now()
            self._read_records()
            self._received = self._decrypted() or b""
        return self._is_at_end or (self._wire.is_at_end and not self._received)

    async def receive(self) -> bytes:
        """Wait for the next bytes, and take all that have arrived; return nothing at the end."""
        if self._received:
            data, self._received = self._received, b""
            return data
        while not self._is_at_end:
            found = self._decrypted()
            if found is not None:
                return found
            await self._flush()
            if self._records.has_more(self._kept):
                # There was no data in many records. The wire to a server takes no turns with others.
                await self._wire.turn()
                await asyncio.sleep(0)
            if not await self._take_more():
                # Many servers close without a TLS alert, and a reader that must know relies on a length.
                self._is_at_end = True
        return b""

    async def _take_more(self) -> bool:
        """Read the next records, or what has come of one. Return False at the end."""
        if not self._records.has_more(self._kept):
            data = await self._wire.receive()
            if not data:
                return False
            self._kept += data
        self._read_records()
        return True

    def _read_records(self) -> None:
        size = self._records.take(self._kept, RECORDS_PER_TURN)
        self._incoming.write(self._kept[:size])
        del self._kept[:size]

    def _decrypted(self) -> bytes | None:
        """Return what can be read by now; nothing at the end, None if more has to come."""
        try:
            data = self._tls.read(RECEIVED_BYTES)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError:
            self.abort()
            data = b""
        if not data:
            self._is_at_end = True
        return data

    def unread(self, data: bytes) -> None:
        """Put back what was taken and not used."""
        self._received = data + self._received

    async def send(self, data: bytes) -> None:
        """Send, and wait while the other end does not read. Does nothing on a connection that is lost."""
        if not data or self._has_ended or self.lost.done():
            return
        try:
            self._tls.write(data)
        except ssl.SSLError:
            self.abort()
            return
        await self._flush()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await self._wire.send(self._outgoing.read())

    def _flush_now(self) -> None:
        if self._outgoing.pending and not self.lost.done():
            self._wire.transport.write(self._outgoing.read())

    def end(self) -> None:
        """Send nothing more, but keep receiving."""
        if self._has_ended:
            return
        self._has_ended = True
        # It raises because the other end has not said the same yet, or because there was nothing to end.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush_now()

    def close(self) -> None:
        """Send what is left, then end."""
        self.end()
        self._wire.close()

    def abort(self) -> None:
        """End at once, whatever is left to send."""
        self._wire.abort()

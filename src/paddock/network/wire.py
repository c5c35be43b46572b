"""One TCP connection of the proxy: read by a coroutine at first, and perhaps spliced to another in the end.

Memory is bounded: reading stops while nobody takes the data, and sending stops while the peer does not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, cast

from paddock.network.stream import Stream
from paddock.network.turn import Share

RECEIVED_LIMIT_BYTES: Final = 256 * 1024
"""What may wait for its reader. The loop hands over up to 256 KiB at once, so it can be twice as much."""


class Wire(asyncio.Protocol):
    """A connection whose other end is not trusted. `close` or `abort` it in the end, and await `lost`."""

    transport: asyncio.Transport

    def __init__(self, share: Share | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._share = share
        self.lost: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._received: deque[bytes] = deque()
        self._received_bytes = 0
        self._is_at_end = False
        self._has_ended = False
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._is_full = False
        self._onward: Wire | None = None
        self._source: Wire | None = None
        self._left_bytes = 0
        self._passed: asyncio.Future[None] | None = None
        """Done when so much was sent on, or nothing more comes; None if there is no limit."""

    async def turn(self) -> None:
        """Wait until there is time for another piece of work for this connection."""
        if self._share is not None:
            await self._share.take()

    # --- reading ------------------------------------------------------------

    @property
    def is_at_end(self) -> bool:
        """Return whether the other end will send nothing more."""
        return self._is_at_end

    async def heard(self) -> None:
        """Wait until something can be received, or the end is. For one coroutine at a time, as `receive`."""
        while not self._received and not self._is_at_end:
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    async def receive(self) -> bytes:
        """Wait for what comes next, and take all of it; nothing at the end."""
        await self.heard()
        return self.receive_now()

    def receive_now(self) -> bytes:
        """Take what has come by now; nothing if that is nothing."""
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        if self._received_bytes > RECEIVED_LIMIT_BYTES and not self.lost.done():
            self.transport.resume_reading()
        self._received_bytes = 0
        return data

    def unread(self, data: bytes) -> None:
        """Put back what was taken and not used."""
        if data:
            self._received.appendleft(data)
            self._received_bytes += len(data)

    # --- writing ------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """Send, and wait while the other end does not read. Does nothing on a connection that is lost."""
        if data and not self.lost.done():
            self.transport.write(data)
        while self._is_full and not self.lost.done():
            self._writer = self._loop.create_future()
            try:
                await self._writer
            finally:
                self._writer = None

    def splice(self, onward: Wire) -> None:
        """Send everything that comes here from now on to another wire, and its end too."""
        data = b"".join(self._received)
        self._received.clear()
        is_stopped = self._received_bytes > RECEIVED_LIMIT_BYTES
        self._received_bytes = 0
        self._onward, onward._source = onward, self
        if data:
            self._pass_on(onward, data)
        if self._is_at_end:
            self._end_onward(onward)
        elif not self.lost.done():
            if onward._is_full:
                self.transport.pause_reading()
            elif is_stopped:
                self.transport.resume_reading()

    async def pass_on(self, onward: Wire, limit_bytes: int) -> int:
        """Send the next bytes that come here to another wire. Returns how many of them did not come.

        What comes after them can be received. For one coroutine at a time, as `receive`.
        """
        self._left_bytes = limit_bytes
        self._passed = self._loop.create_future()
        self.splice(onward)
        try:
            await asyncio.wait((self._passed, self.lost, onward.lost), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._passed = None
            self._part(onward)
        return self._left_bytes

    def _pass_on(self, onward: Wire, data: bytes) -> None:
        if self._passed is not None:
            data, rest = data[: self._left_bytes], data[self._left_bytes :]
            self._left_bytes -= len(data)
            if self._left_bytes == 0:
                self._wake(self._passed)
                self._part(onward)
                self._keep(rest)
        if not onward.lost.done():
            onward.transport.write(data)

    def _part(self, onward: Wire) -> None:
        """Keep what comes here from now on for whoever receives it."""
        if self._onward is not None:
            self._onward = onward._source = None
            if onward._is_full and not self.lost.done():
                self.transport.resume_reading()

    def _end_onward(self, onward: Wire) -> None:
        if self._passed is None:
            onward.end()
        else:
            # What was sent is not whole, and whoever waits has to say so.
            self._wake(self._passed)

    def end(self) -> None:
        """Send nothing more; what comes from there still does."""
        if self.lost.done() or self._has_ended:
            return
        self._has_ended = True
        if self._is_at_end:
            # The transport stays open for ever when both directions have ended.
            self.transport.close()
        elif self.transport.can_write_eof():
            self.transport.write_eof()

    def close(self) -> None:
        """Send what is left, then end."""
        if not self.lost.done():
            self.transport.close()

    def abort(self) -> None:
        """End at once, whatever is left to send."""
        if not self.lost.done():
            self.transport.abort()

    # --- called by the loop -------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the connection."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass data on, or keep it."""
        if self._onward is not None:
            self._pass_on(self._onward, data)
        else:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        # Past the limit the reading is stopped already.
        was_full = self._received_bytes > RECEIVED_LIMIT_BYTES
        self._received.append(data)
        self._received_bytes += len(data)
        if self._received_bytes > RECEIVED_LIMIT_BYTES and not was_full:
            self.transport.pause_reading()
        self._wake(self._reader)

    def eof_received(self) -> bool:
        """Stay open for the other direction."""
        self._is_at_end = True
        if self._onward is not None:
            self._end_onward(self._onward)
        self._wake(self._reader)
        return not self._has_ended

    def pause_writing(self) -> None:
        """Make whoever sends wait."""
        self._is_full = True
        if self._source is not None and not self._source.lost.done():
            self._source.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let whoever sends go on."""
        self._is_full = False
        self._wake(self._writer)
        if self._source is not None and not self._source.lost.done():
            self._source.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake everybody who waits: the connection is gone."""
        self._is_at_end = True
        if not self.lost.done():
            self.lost.set_result(None)
        self._wake(self._reader)
        self._wake(self._writer)

    @staticmethod
    def _wake(waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def relay(client: Stream, server: Stream) -> None:
    """Pass on both directions until both are at their end, or one of the wires is lost.

    Either may be spliced already.
    """
    if not isinstance(client, Wire) or not isinstance(server, Wire):
        await _copy_both(client, server)
        return
    for source, onward in ((client, server), (server, client)):
        if source._onward is None:
            source.splice(onward)
    await asyncio.wait((client.lost, server.lost), return_when=asyncio.FIRST_COMPLETED)
    # What was received before one end was lost is still sent to the other.
    client.close()
    server.close()


async def relay_part(source: Stream, onward: Stream, limit_bytes: int) -> int:
    """Pass on the next bytes of one direction. Returns how many of them did not come."""
    if isinstance(source, Wire) and isinstance(onward, Wire):
        return await source.pass_on(onward, limit_bytes)
    left = limit_bytes
    while left > 0 and (data := await source.receive()):
        source.unread(data[left:])
        data = data[:left]
        left -= len(data)
        await onward.send(data)
    return left


async def _copy_both(client: Stream, server: Stream) -> None:
    """Pass on both directions of what has to be read and written anew."""
    copying = [asyncio.ensure_future(_copy(*pair)) for pair in ((client, server), (server, client))]
    try:
        await asyncio.wait((*copying, client.lost, server.lost), return_when=asyncio.FIRST_COMPLETED)
        if not client.lost.done() and not server.lost.done():
            await asyncio.wait(copying)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
        client.close()
        server.close()


async def _copy(source: Stream, onward: Stream) -> None:
    while data := await source.receive():
        await onward.send(data)
        await source.turn()
    onward.end()

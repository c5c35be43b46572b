"""Lets a bounded number of TLS records through in one turn of the loop.

The loop's own TLS decrypts all that one read has brought, up to 256 KiB, before it does anything else. Of the
smallest records those are ten thousand, and a single one may begin a handshake, which takes milliseconds.
Anybody can send both before they have shown a token: everybody else would wait. So this module stands between
a connection and asyncio's `SSLProtocol`, which works on every loop, and keeps back what is more than a few
records, or comes when a turn of the loop has no time left for records. What is kept back waits for the turns
of its connection's share. All connections in a handshake have one share together.
"""

from __future__ import annotations

import asyncio
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from paddock.tls_records import TlsRecords
from paddock.transport.input_turns import InputShare

FIRST_RECORDS: Final = 16
"""Records of one read that are let through at once: as many as a read has, if they are full."""

RECORDS_PER_TURN: Final = 64
"""Records that one turn lets through of what one connection has kept back: about a millisecond, if each
changes the keys."""


class RecordGate(asyncio.Protocol, asyncio.Transport):
    """Stands before one connection: its protocol, and the transport below its TLS.

    The TLS hears of the end of a connection after all that came before it, as without this.
    """

    def __init__(
        self, tls: SSLProtocol, is_known: Callable[[], bool], own: InputShare, strangers: InputShare
    ) -> None:
        """`is_known` says whether the handshake is over, and with it the time among the `strangers`."""
        super().__init__()
        self._tls = tls
        self._is_known = is_known
        self._own = own
        self._strangers = strangers
        self._stream: asyncio.Transport
        self._records = TlsRecords()
        self._kept = bytearray()
        """What has come and is not let through."""
        self._is_waiting = False
        """Whether there is a turn to come."""
        self._is_paused = False
        """Whether the TLS wants no more for now."""
        self._is_reading = True
        self._has_ended = False
        """Whether the peer sends nothing more."""
        self._is_end_told = False
        self._is_lost = False
        self._is_loss_told = False
        self._fault: Exception | None = None
        """Why the connection ends."""

    # ------------------------------------------------------------------ in

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._stream = cast(asyncio.Transport, transport)
        self._tls.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Let the first records through."""
        share = self._share
        if not self._kept and not self._is_waiting and not self._is_paused and share.has_room:
            size = self._records.take(data, 1)
            if size == len(data) and share is self._own:
                # It takes microseconds itself, and what it holds has turns of its own: to look at the clock
                # would take as long.
                self._pass_on(data)
                return
            if size < len(data):
                size += self._records.take(data[size:], FIRST_RECORDS - 1)
            self._kept += data[size:]
            share.run(partial(self._pass_on, data[:size]))
            if not self._kept:
                return
        else:
            self._kept += data
        self._go_on()

    def eof_received(self) -> bool | None:
        """Tell of the end."""
        self._has_ended = True
        if self._has_more:
            self._go_on()
            return True
        return self._tell_end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell of the end."""
        self._is_lost = True
        self._fault = self._fault or exc
        self._go_on()

    def turn(self) -> None:
        """Let more through, in a turn of the share."""
        self._is_waiting = False
        if not self._is_paused:
            self._let_through(RECORDS_PER_TURN)
        self._go_on()

    @property
    def _share(self) -> InputShare:
        return self._own if self._is_known() else self._strangers

    @property
    def _has_more(self) -> bool:
        """Return whether anything is kept that can be let through."""
        return self._records.has_more(self._kept) or (bool(self._kept) and (self._has_ended or self._is_lost))

    def _let_through(self, limit: int) -> None:
        size = self._records.take(self._kept, limit)
        if size == 0 and (self._has_ended or self._is_lost):
            # The beginning of a head, behind which nothing comes.
            size = len(self._kept)
        data = bytes(self._kept[:size])
        del self._kept[:size]
        self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            space = self._tls.get_buffer(len(data))
            size = min(len(space), len(data) - at)
            space[:size] = data[at : at + size] if at or size < len(data) else data
            self._tls.buffer_updated(size)
            at += size

    def _go_on(self) -> None:
        """Ask for a turn if there is more, tell of the end if there is none, and read if there is room."""
        has_more = self._has_more
        if has_more and not self._is_waiting and not self._is_paused:
            self._is_waiting = True
            self._share.wait(self.turn, len(self._kept))
        elif not has_more and self._is_lost:
            self._tell_loss()
        elif not has_more and self._has_ended and not self._is_end_told and not self._tell_end():
            self._stream.close()
        if not self._is_lost and not self._has_ended:
            self._read(is_wanted=not has_more and not self._is_paused)

    def _tell_end(self) -> bool | None:
        self._is_end_told = True
        # The stubs of the standard library know no result; there is one while reading is paused.
        heard: Callable[[], bool | None] = self._tls.eof_received
        return heard()

    def _tell_loss(self) -> None:
        if not self._is_loss_told:
            self._is_loss_told = True
            self._tls.connection_lost(self._fault)

    def _read(self, *, is_wanted: bool) -> None:
        if is_wanted is not self._is_reading and not self._stream.is_closing():
            self._is_reading = is_wanted
            if is_wanted:
                self._stream.resume_reading()
            else:
                self._stream.pause_reading()

    def pause_reading(self) -> None:
        """Let nothing through until `resume_reading`."""
        self._is_paused = True
        self._go_on()

    def resume_reading(self) -> None:
        """Go on."""
        self._is_paused = False
        self._go_on()

    # ------------------------------------------------------------------ out

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send data."""
        if not self._is_lost:
            self._stream.write(data)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._tls.resume_writing()

    # ------------------------------------------------------------------ the end

    def is_closing(self) -> bool:
        """Return whether the connection ends."""
        return self._is_lost or self._stream.is_closing()

    def close(self) -> None:
        """End the connection when everything has left. What is kept is not wanted any more."""
        self._drop()
        if not self._is_lost:
            self._stream.close()

    def abort(self) -> None:
        """End it now."""
        self._drop()
        if not self._is_lost:
            self._stream.abort()

    def _force_close(self, exc: Exception | None) -> None:
        """Do as asyncio's own transports: its TLS says by this why it ends a connection."""
        self._fault = self._fault or exc
        self.abort()

    def _drop(self) -> None:
        self._kept.clear()
        if self._is_lost:
            asyncio.get_running_loop().call_soon(self._tell_loss)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Ask the connection."""
        return self._stream.get_extra_info(name, default)

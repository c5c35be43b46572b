r"""One message per line, over any byte stream.

`LineSplitter` cuts a stream into messages and does no I/O; `LineLink` is the link that
uses it on an asyncio transport. A message must not hold a newline, which compact JSON
never does; `\r\n` is tolerated and blank lines are skipped, so that a person can type.
Where the stream comes from is the business of `unix` and `stdio`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

from paddock.errors import ConnectionLost, MessageTooLarge
from paddock.transport.delivery import MESSAGES_PER_TURN, CloseTimeout, Delivery
from paddock.transport.input_turns import InputTurns
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Accept, Link


class LineSplitter:
    """Cuts a byte stream into lines of at most `max_line_bytes`, the line ending not counted."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._partial = bytearray()
        """The beginning of a line that has not ended."""
        self._unread = b""
        """What follows it, and has not been looked at."""

    @property
    def is_inside_line(self) -> bool:
        """Return whether a line has begun and not ended."""
        return bool(self._partial) and not self._partial.isspace()

    @property
    def has_more(self) -> bool:
        """Return whether `take` has not looked at all that came."""
        return bool(self._unread)

    @property
    def held_bytes(self) -> int:
        """Return how much has come and is not taken."""
        return len(self._partial) + len(self._unread)

    def feed(self, data: bytes) -> list[bytes]:
        r"""Take the next bytes and give the lines that they complete, as `add` and `take` do."""
        self.add(data)
        return self.take()

    def add(self, data: bytes) -> None:
        """Give the next bytes, to `take` the lines from."""
        self._unread = self._unread + data if self._unread else data

    def take(self, limit: int = -1) -> list[bytes]:
        r"""Take the next lines, without `\n` or `\r\n`: all that are complete, or at most `limit`.

        Blank ones count, and are not returned. How the stream is cut into calls makes no difference to the
        lines. The time is linear in the stream even when a long line comes in small pieces: it does not
        read old bytes again. Raises `MessageTooLarge` for a line over the limit; the splitter is of no
        use after that.
        """
        # One byte more than a line may have: it could be the \r.
        room = self._max_line_bytes + 1 - len(self._partial)
        pieces = self._unread.split(b"\n", limit)
        self._unread = b""
        if len(pieces) == 1:
            self._check(len(pieces[0]), room)
            self._partial += pieces[0]
            return []
        if self._partial:
            self._check(len(pieces[0]), room)
            self._partial += pieces[0]
            pieces[0] = bytes(self._partial)
        rest = pieces.pop()
        if len(pieces) == limit:
            self._partial = bytearray()
            self._unread = rest
        else:
            self._check(len(rest), self._max_line_bytes + 1)
            self._partial = bytearray(rest)
        return [line for piece in pieces if (line := self._trim(piece))]

    def _trim(self, piece: bytes) -> bytes:
        line = piece.removesuffix(b"\r")
        self._check(len(line), self._max_line_bytes)
        return b"" if line.isspace() else line

    def _check(self, size: int, room: int) -> None:
        if size > room:
            raise MessageTooLarge(self._max_line_bytes)


def _nobody_cares(link: Link) -> None:
    """Stand in for a callback that nobody needs."""


class LineLink(asyncio.Protocol, Link):
    """A link over an asyncio transport. Becomes usable at `connection_made`."""

    def __init__(
        self,
        accept: Accept,
        limits: TransportLimits,
        peer: str,
        *,
        turns: InputTurns | None = None,
        ended: Callable[[Link], None] = _nobody_cares,
    ) -> None:
        self.peer = peer
        self._accept = accept
        self._limits = limits
        self._stream: asyncio.Transport
        self._splitter = LineSplitter(limits.max_message_bytes)
        self._share = None if turns is None else turns.share()
        """The link's part of the time for the input of all; None if it is the only one."""
        self._is_yielding = False
        """Whether the rest of a read waits for the next turn."""
        self._delivery = Delivery(
            self,
            reopen=self._reopen,
            ended=partial(ended, self),
            later=None if turns is None else turns.share().wait,
        )
        self._close_timeout = CloseTimeout(self, limits.close_timeout_s)

    # ------------------------------------------------------------------ for the owner

    @property
    def buffered_bytes(self) -> int:
        """See `Link`."""
        return self._stream.get_write_buffer_size()

    def send(self, message: bytes | bytearray) -> None:
        """See `Link`."""
        if self._delivery.is_open:
            self._stream.write(b"".join((message, b"\n")))

    def pause_reading(self) -> None:
        """See `Link`."""
        self._delivery.pause()
        self._stream.pause_reading()

    def resume_reading(self) -> None:
        """See `Link`."""
        self._delivery.resume()

    def close(self) -> None:
        """Send what is queued, then end the output; end when the peer has done the same."""
        if not self._delivery.is_open:
            return
        self._delivery.stop()
        if self._stream.can_write_eof() and not self._stream.is_closing():
            # close(2) on a socket with unread input would show the peer a reset instead of
            # an end, so read on until the peer ends too.
            self._stream.write_eof()
            self._stream.resume_reading()
        else:
            self._stream.close()
        self._close_timeout.begin()

    def abort(self) -> None:
        """See `Link`."""
        self._delivery.stop()
        # asyncio's transports cannot be aborted once they are gone.
        if not self._delivery.is_finished:
            self._stream.abort()

    # ------------------------------------------------------------------ for the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the stream and make the receiver."""
        # uvloop's transports have every method of asyncio.Transport, and not its type.
        self._stream = cast(asyncio.Transport, transport)
        self._stream.set_write_buffer_limits(
            high=self._limits.write_high_water_bytes, low=self._limits.write_low_water_bytes
        )
        self._delivery.attach(self._accept)
        if self._delivery.is_paused:
            # asyncio before 3.11.4 starts to read after this call, whatever was asked in it.
            asyncio.get_running_loop().call_soon(self._pause_again)

    def _pause_again(self) -> None:
        if self._delivery.is_paused and self._delivery.is_open:
            self._stream.resume_reading()
            self._stream.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Deliver the messages that these bytes complete, as many as this turn of the loop has time for."""
        if not self._delivery.is_open:
            return
        self._splitter.add(data)
        if self._share is None:
            self._take()
        elif self._share.has_room:
            self._share.run(self._take)
        else:
            self._yield()
        if self._delivery.is_holding:
            # Also because uvloop starts to read after connection_made even if reading was paused in there.
            self._stream.pause_reading()

    def _take(self) -> None:
        """Deliver as many messages as one turn may take, and let others have theirs if there are more."""
        try:
            messages = self._splitter.take(MESSAGES_PER_TURN)
        except MessageTooLarge as error:
            self._delivery.fail(error)
            return
        self._delivery.deliver(messages)
        if self._splitter.has_more and self._delivery.is_open:
            self._yield()

    def _yield(self) -> None:
        if not self._is_yielding:
            self._is_yielding = True
            self._stream.pause_reading()
            if self._share is None:
                asyncio.get_running_loop().call_soon(self._go_on)
            else:
                self._share.wait(self._go_on, self._splitter.held_bytes)

    def _go_on(self) -> None:
        self._is_yielding = False
        # What the owner's pause holds back goes first, and `_reopen` follows it.
        if self._delivery.is_open and not self._delivery.is_holding:
            self._take()
            self._read_on()

    def _read_on(self) -> None:
        if self._delivery.is_open and not self._is_yielding and not self._delivery.is_holding:
            self._stream.resume_reading()

    def eof_received(self) -> bool:
        """End the link; the transport still sends what is queued."""
        if self._delivery.is_open:
            fault: ConnectionLost | None = None
            if self._splitter.is_inside_line:
                fault = ConnectionLost(f"{self.peer} ended in the middle of a message")
            self._delivery.stop(fault)
            self._close_timeout.begin()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Make the last call to the receiver."""
        self._close_timeout.end()
        error: ConnectionLost | None = None
        if self._delivery.is_open:
            error = ConnectionLost(f"{self.peer} was lost: {exc or 'the connection ended'}")
            error.__cause__ = exc
        self._delivery.finish(error)

    def pause_writing(self) -> None:
        """Report the high-water mark."""
        self._delivery.writing_paused()

    def resume_writing(self) -> None:
        """Report the low-water mark."""
        self._delivery.writing_resumed()

    def _reopen(self) -> None:
        if self._splitter.has_more:
            self._yield()
        else:
            self._read_on()


async def open_stream(sock: socket.socket, link: LineLink) -> None:
    """Give a connected Unix socket to a link, which owns it from now on, even if this raises OSError."""
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: link, sock=sock)
    except OSError:
        sock.close()
        raise

"""One websocket connection, on either side.

Sends text frames; takes text and binary ones, whole or in fragments, and hands both
up as bytes without looking at them (whoever decodes a message checks its UTF-8).
Anything that RFC 6455 forbids, or that is over a limit, drops the connection. No
extensions, no subprotocols. The handshake is the business of `websocket`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from paddock.errors import ConnectionLost, MessageTooLarge, ProtocolViolation
from paddock.transport.burst import Burst, Message
from paddock.transport.delivery import Delivery, Farewell
from paddock.transport.limits import WebSocketLimits
from paddock.transport.link import Accept, Link

if TYPE_CHECKING:
    # collections.abc has it only since Python 3.12.
    from typing_extensions import Buffer

# Looked up once, not per message.
_TEXT: Final = WSMsgType.TEXT
_BINARY: Final = WSMsgType.BINARY

# 1005 is never on the wire; it stands for a close frame without a code (RFC 6455, 7.1.5).
_NO_CLOSE_CODE: Final = 1005
_READ_BYTES: Final = 128 * 1024
"""What one turn of the loop takes from one peer: the parser's own buffer grows to megabytes, and every
message in it would be answered before anybody else's."""

_BULK_READ_BYTES: Final = 8 * _READ_BYTES
"""The same from a peer whose last read was bulk data, large messages only: their bytes cost little, and the
fewer the turns, the fewer the system calls."""

_BULK_MESSAGE_BYTES: Final = 16 * 1024
"""From this size on, messages are large."""

_BULK_BYTES: Final = 4 * _BULK_MESSAGE_BYTES
"""A shorter read tells nothing."""

_CLEAN_CLOSE_CODES: Final = frozenset((1000, 1001, _NO_CLOSE_CODE))


def _nobody_cares(link: Link) -> None:
    """Stand in for a callback that nobody needs."""


class WebSocketLink(WSListener, Link):
    """A link over picows. Becomes usable when picows calls `on_ws_connected`."""

    def __init__(
        self,
        accept: Accept,
        limits: WebSocketLimits,
        *,
        started: Callable[[WebSocketLink], None] = _nobody_cares,
        ended: Callable[[Link], None] = _nobody_cares,
    ) -> None:
        self.peer = "ws"
        self.is_connected = False
        self._accept = accept
        self._limits = limits
        self._started = started
        self._ws: WSTransport
        self._stream: asyncio.Transport
        self.burst = Burst(self._send_message, self._send_frames)
        self.has_taken_small = False
        """Whether a message, or a part of one, has come that is not large."""
        self._delivery = Delivery(self, reopen=self._reopen, ended=partial(ended, self))
        self._farewell = Farewell(self, limits.close_timeout_s)
        self._heartbeat = _Heartbeat(self._ping, self._peer_is_silent, limits)
        self._assembly: bytearray | None = None
        self._unsent_at_ping_bytes = 0

    # ------------------------------------------------------------------ for the owner

    @property
    def buffered_bytes(self) -> int:
        """See `Link`."""
        return self.burst.held_bytes + self._stream.get_write_buffer_size()

    @property
    def descriptor(self) -> int:
        """The file descriptor below, from `started` on."""
        fd: int = self._stream.get_extra_info("socket").fileno()
        return fd

    def send(self, message: Message) -> None:
        """See `Link`."""
        if self._delivery.is_open:
            self.burst.send(message)

    def pause_reading(self) -> None:
        """See `Link`."""
        self._delivery.pause()
        self._stream.pause_reading()

    def resume_reading(self) -> None:
        """See `Link`."""
        self._delivery.resume()

    def close(self) -> None:
        """Send what is queued and a close frame; end when the peer has answered it."""
        if not self._delivery.is_open:
            return
        self._delivery.stop()
        self.burst.flush()
        self._ws.send_close(WSCloseCode.OK)
        # The peer's answer has to be read even if the owner had paused reading.
        self._stream.resume_reading()
        self._farewell.begin()

    def abort(self) -> None:
        """See `Link`."""
        self._delivery.stop()
        # asyncio's transports cannot be aborted once they are gone.
        if not self._delivery.is_finished:
            self.burst.flush()
            self._stream.abort()

    # ------------------------------------------------------------------ for picows

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Take over the upgraded connection and make its receiver."""
        self.is_connected = True
        self._ws = transport
        self._stream = transport.underlying_transport
        scheme = "ws" if self._stream.get_extra_info("ssl_object") is None else "wss"
        self.peer = f"{scheme} {address_text(self._stream.get_extra_info('peername'))}"
        self._stream.set_protocol(_Tap(self._stream, self, transport, self._heartbeat))
        self._stream.set_write_buffer_limits(
            high=self._limits.write_high_water_bytes, low=self._limits.write_low_water_bytes
        )
        self._started(self)
        self._heartbeat.start()
        self._delivery.attach(self._accept)
        # Frames that came in one segment with the handshake do not pass the tap.
        asyncio.get_running_loop().call_soon(self.parsed)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Hand a whole message up; leave the rest to the slow path."""
        kind = frame.msg_type
        if (
            (kind is not _TEXT and kind is not _BINARY)
            or not frame.fin
            or self._assembly is not None
            or frame.rsv1
            or frame.rsv2
            or frame.rsv3
        ):
            self._take_unusual(kind, frame)
        elif frame.payload_size < _BULK_MESSAGE_BYTES:
            self.has_taken_small = True
            self._delivery.deliver(frame.get_payload_as_bytes())
        else:
            # picows' own buffer: to copy a large message costs as much as to decode it.
            self._delivery.deliver(frame.get_payload_as_memoryview())

    # ------------------------------------------------------------------ for the tap

    def parsed(self) -> None:
        """Drop the connection if picows has found a violation in what it just read.

        picows answers one with a close frame, goes on reading for 10 ms and then closes
        gracefully, which never ends if the peer does not read. It tells the listener nothing.
        """
        if not (self._delivery.is_open and self._ws.is_close_frame_sent):
            return
        sent = self._ws.close_handshake.sent
        if sent is not None and sent.code == WSCloseCode.MESSAGE_TOO_BIG:
            self._delivery.fail(MessageTooLarge(self._limits.largest_frame_bytes))
        else:
            self._violation(sent.reason if sent is not None else "unreadable frame")

    def input_ended(self) -> None:
        """Note that the peer will send nothing more; what is queued may still reach it."""
        if self._delivery.is_open:
            self._delivery.fail(ConnectionLost(f"{self.peer} ended the connection without a close frame"))

    def broken(self, code: int) -> None:
        """End the link because of an error of its socket."""
        if self._delivery.is_open:
            cause = OSError(code, os.strerror(code))
            error = ConnectionLost(f"{self.peer} was lost: {cause}")
            error.__cause__ = cause
            self._delivery.fail(error)

    def lost(self, cause: Exception | None) -> None:
        """Make the last call to the receiver."""
        self._heartbeat.stop()
        self._farewell.end()
        error: ConnectionLost | None = None
        if self._delivery.is_open:
            error = ConnectionLost(f"{self.peer} was lost: {cause or 'the connection ended'}")
            error.__cause__ = cause
        self._delivery.finish(error)

    def writing_paused(self) -> None:
        """Pass the transport's high-water signal on."""
        self._delivery.writing_paused()

    def writing_resumed(self) -> None:
        """Pass the transport's low-water signal on."""
        self._delivery.writing_resumed()

    # ------------------------------------------------------------------ inside

    # A send that failed is reported in a later turn of the loop; until then the transport would complain.

    def _send_message(self, message: Message) -> None:
        if not self._stream.is_closing():
            self._ws.send(_TEXT, message)

    def _send_frames(self, frames: bytearray) -> None:
        # When picows finds a violation, it sends a close frame at once, and nothing may follow that.
        if not (self._stream.is_closing() or self._ws.is_close_frame_sent):
            self._stream.write(frames)

    def _reopen(self) -> None:
        self._heartbeat.heard = True
        self._stream.resume_reading()

    def _take_unusual(self, kind: WSMsgType, frame: WSFrame) -> None:
        if frame.payload_size < _BULK_MESSAGE_BYTES:
            self.has_taken_small = True
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self._violation("reserved bits are set, but no extension was negotiated")
            return
        match kind:
            case WSMsgType.TEXT | WSMsgType.BINARY:
                if self._assembly is not None:
                    self._violation("a new message began inside a fragmented one")
                else:
                    self._assembly = bytearray()
                    self._take_fragment(frame)
            case WSMsgType.CONTINUATION:
                if self._assembly is None:
                    self._violation("a continuation frame continues nothing")
                else:
                    self._take_fragment(frame)
            case WSMsgType.PING:
                # A peer that pings and does not read must not make the queue grow for ever.
                if self.buffered_bytes <= self._limits.write_high_water_bytes:
                    self.burst.flush()
                    self._ws.send_pong(frame.get_payload_as_bytes())
            case WSMsgType.CLOSE:
                self._take_close(frame.get_payload_as_bytes())
            case WSMsgType.PONG:
                pass

    def _take_fragment(self, frame: WSFrame) -> None:
        # One growing buffer, not a list of parts: a million one-byte parts would cost
        # fifty times their size.
        assembly = self._assembly
        assert assembly is not None
        if not self._delivery.is_open:
            return
        if len(assembly) + frame.payload_size > self._limits.max_message_bytes:
            self._assembly = None
            self._delivery.fail(MessageTooLarge(self._limits.max_message_bytes))
            return
        assembly += frame.get_payload_as_memoryview()
        if frame.fin:
            self._assembly = None
            self._delivery.deliver(bytes(assembly))

    def _take_close(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else _NO_CLOSE_CODE
        fault: ConnectionLost | None = None
        if self._delivery.is_open and code not in _CLEAN_CLOSE_CODES:
            reason = payload[2:].decode("utf-8", "replace")
            fault = ConnectionLost(f"{self.peer} closed the connection with code {code} {reason}".rstrip())
        self._delivery.stop(fault)
        if not self._ws.is_close_frame_sent:
            self.burst.flush()
            self._ws.send_close(WSCloseCode.OK)
        self._ws.disconnect()
        self._farewell.begin()

    def _violation(self, problem: str) -> None:
        self._delivery.fail(ProtocolViolation(f"{self.peer} broke the websocket protocol: {problem}"))

    def _ping(self) -> None:
        self._unsent_at_ping_bytes = self.buffered_bytes
        self._ws.send_ping()

    def _peer_is_silent(self) -> None:
        # While the owner has paused reading, the peer's pong waits in the kernel.
        # A peer that takes its output, however slowly, has not come to the ping yet.
        is_taking = self.buffered_bytes < self._unsent_at_ping_bytes
        if self._delivery.is_open and not self._delivery.is_paused and not is_taking:
            self._delivery.fail(
                ConnectionLost(f"{self.peer} was silent for {self._limits.ping_timeout_s} s after a ping")
            )


class _Heartbeat:
    """Pings at an interval and, where a timeout is set, notices a peer that stays silent."""

    def __init__(self, ping: Callable[[], None], silent: Callable[[], None], limits: WebSocketLimits) -> None:
        self.heard = False
        """Set by the tap on every read: a peer in the middle of a long frame is alive too."""
        self._ping = ping
        self._silent = silent
        self._interval_s = limits.ping_interval_s
        self._timeout_s = limits.ping_timeout_s
        self._next_ping: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Ping after one interval, and so on until `stop`."""
        if self._interval_s is not None:
            self._next_ping = asyncio.get_running_loop().call_later(self._interval_s, self._beat)

    def stop(self) -> None:
        """Cancel both timers."""
        for timer in (self._next_ping, self._deadline):
            if timer is not None:
                timer.cancel()
        self._next_ping = self._deadline = None

    def _beat(self) -> None:
        self._ping()
        self.start()
        if self._timeout_s is not None and self._deadline is None:
            self.heard = False
            self._deadline = asyncio.get_running_loop().call_later(self._timeout_s, self._judge)

    def _judge(self) -> None:
        self._deadline = None
        if not self.heard:
            self._silent()


class _Tap(asyncio.BufferedProtocol):
    """Stands between the socket and picows' parser to see what picows does not report.

    picows keeps to itself that bytes arrived, that the input ended, which error ended
    the connection, and that it found a violation.
    """

    def __init__(
        self,
        stream: asyncio.Transport,
        link: WebSocketLink,
        ws: WSTransport,
        heartbeat: _Heartbeat,
    ) -> None:
        parser = stream.get_protocol()
        assert isinstance(parser, asyncio.BufferedProtocol)
        self._parser = parser
        self._socket: socket.socket = stream.get_extra_info("socket")
        self._link = link
        self._ws = ws
        self._heartbeat = heartbeat
        self._read_bytes = _READ_BYTES

    def get_buffer(self, sizehint: int) -> Buffer:
        """Let the parser read straight into its own buffer, as much as is fair to other connections."""
        return memoryview(self._parser.get_buffer(sizehint))[: self._read_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """Parse, which calls the link per frame, then look for a violation."""
        self._heartbeat.heard = True
        link = self._link
        link.has_taken_small = False
        if not self._ws.is_client_side:
            link.burst.begin()
        self._parser.buffer_updated(nbytes)
        link.burst.end()
        is_bulk = nbytes >= _BULK_BYTES and not link.has_taken_small
        self._read_bytes = _BULK_READ_BYTES if is_bulk else _READ_BYTES
        if self._ws.is_close_frame_sent:
            link.parsed()
        # When a reset comes in one event with bytes before it, uvloop gives that event and then watches the
        # descriptor no more. The transport reads on only at the next event: nobody would ever see the reset.
        try:
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except OSError:
            # What was parsed has dropped the connection.
            return
        if code:
            link.broken(code)

    def eof_received(self) -> bool | None:
        """End the link; half-open connections have no use here."""
        self._link.input_ended()
        return self._parser.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let picows clean up first, then make the last call."""
        self._parser.connection_lost(exc)
        self._link.lost(exc)

    def pause_writing(self) -> None:
        """Report the high-water mark."""
        self._link.writing_paused()

    def resume_writing(self) -> None:
        """Report the low-water mark."""
        self._link.writing_resumed()


def address_text(address: object) -> str:
    """Give host and port of a socket address, an IPv6 host in brackets."""
    match address:
        case (str() as host, int() as port, *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown"

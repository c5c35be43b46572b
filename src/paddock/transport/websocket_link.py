"""One websocket connection, on either side, from the end of its handshake on.

Sends text frames; takes text and binary ones, whole or in fragments, and hands both
up as bytes without looking at them (the decoder of a message checks its UTF-8).
Anything that RFC 6455 forbids, or that is over a limit, drops the connection. No
extensions, no subprotocols. `websocket` handles the handshake, and `frames` the form of a
single frame.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from paddock.errors import ConnectionLost, MessageTooLarge, ProtocolViolation
from paddock.transport.delivery import MESSAGES_PER_TURN, CloseTimeout, Delivery
from paddock.transport.frames import (
    CLOSE,
    CONTINUATION,
    GOING_AWAY,
    LARGE_BYTES,
    MESSAGE_TOO_BIG,
    NO_CODE,
    NORMAL_CLOSURE,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    Frame,
    FrameReader,
    frame_head,
    masked_frame,
    read_close,
)
from paddock.transport.heartbeat import Heartbeat, does_host_answer, has_unread_input
from paddock.transport.input_turns import InputTurns
from paddock.transport.limits import WebSocketLimits
from paddock.transport.link import Accept, Link
from paddock.transport.paced_stream import PacedStream
from paddock.transport.write_batch import Message, WriteBatch

if TYPE_CHECKING:
    # collections.abc has it only since Python 3.12.
    from typing_extensions import Buffer

IDLE_READ_BYTES: Final = 16 * 1024
"""Size of the first read: enough for most requests. An idle connection keeps a buffer of this size."""

_READ_BYTES: Final = 128 * 1024
"""Bytes that one turn of the loop takes from one peer: the server answers them before all other peers."""

_BULK_READ_BYTES: Final = 8 * _READ_BYTES
"""The same from a peer that sends bulk data, large messages on the average: their bytes cost little, and the
fewer the turns, the fewer the system calls."""

_BULK_BYTES: Final = 4 * LARGE_BYTES
"""A shorter read does not tell that more is to come."""

_FRAMES_PER_TURN: Final = MESSAGES_PER_TURN
"""Frames that one turn takes: a part of a read full of empty frames, which could be twenty thousand."""

_CLEAN_CLOSE_CODES: Final = frozenset((NORMAL_CLOSURE, GOING_AWAY, NO_CODE))


def _nobody_cares(link: Link) -> None:
    """Stand in for a callback that nobody needs."""


class WebSocketLink(asyncio.BufferedProtocol, Link):
    """A link over an asyncio transport. Becomes usable with `open`.

    A client masks what it sends and a server does not; all else is the same on both sides.
    """

    def __init__(
        self,
        accept: Accept,
        limits: WebSocketLimits,
        *,
        is_client: bool,
        turns: InputTurns | None = None,
        started: Callable[[WebSocketLink], None] = _nobody_cares,
        ended: Callable[[Link], None] = _nobody_cares,
    ) -> None:
        self.peer = "ws"
        self._accept = accept
        self._limits = limits
        self._is_client = is_client
        self._started = started
        self._stream: asyncio.Transport
        self._pace: PacedStream | None = None
        """The stream, if it is over TLS."""
        self._socket: socket.socket
        self._share = None if turns is None else turns.share()
        """The link's part of the time for the input of all; None if it is the only one."""
        self._reader = FrameReader(is_masked=not is_client, max_frame_bytes=limits.largest_frame_bytes)
        self._read_bytes = IDLE_READ_BYTES
        self._batch = WriteBatch(self._send_message, self._write)
        self._delivery = Delivery(
            self,
            reopen=self._reopen,
            ended=partial(ended, self),
            # A share waits for one turn at a time, and the link may do so as well.
            later=None if turns is None else turns.share().wait,
        )
        self._close_timeout = CloseTimeout(self, limits.close_timeout_s)
        self._heartbeat = Heartbeat(self._ping, self._show_life, self._peer_is_silent, limits)
        self._assembly: bytearray | None = None
        """What has come of a message in fragments."""
        self._is_yielding = False
        """Whether the rest of a read waits for the next turn."""
        self._is_deaf = False
        """Whether the link ignores further frames."""
        self._loss: ConnectionLost | None = None
        """What happened to the connection."""
        self._delivery_deadline: asyncio.TimerHandle | None = None
        """When to give up; set if the connection ends before all earlier messages are delivered."""
        self._has_sent_close = False
        self._unsent_at_ping_bytes = 0
        self._is_host_doubted = False

    def open(self, stream: asyncio.Transport, early: bytes) -> None:
        """Take over an upgraded connection and make its receiver. `early` came behind the handshake."""
        self._stream = stream
        self._socket = stream.get_extra_info("socket")
        scheme = "ws"
        if stream.get_extra_info("ssl_object") is not None:
            scheme = "wss"
            # A connection that ends takes with it what was read and not decrypted, because reading is
            # paused. So nothing more is read while there is anything to decrypt: the end has to wait.
            stream.set_read_buffer_limits(high=1, low=0)  # type: ignore[attr-defined]
            self._pace = PacedStream(stream, self._delivery.writing_paused, self._delivery.writing_resumed)
            self._stream = self._pace
        self.peer = f"{scheme} {address_text(stream.get_extra_info('peername'))}"
        stream.set_protocol(self)
        self._set_marks()
        self._started(self)
        self._heartbeat.start()
        self._delivery.attach(self._accept)
        if early:
            self._reader.space(len(early))[:] = early
            self.buffer_updated(len(early))

    # ------------------------------------------------------------------ for the owner

    @property
    def buffered_bytes(self) -> int:
        """See `Link`."""
        return self._batch.held_bytes + self._stream.get_write_buffer_size()

    def send(self, message: Message) -> None:
        """See `Link`."""
        if self._delivery.is_open:
            self._batch.send(message)

    @property
    def is_silent(self) -> bool:
        """See `Link`."""
        return self._heartbeat.is_overdue and not self._heartbeat.heard

    def pause_reading(self) -> None:
        """See `Link`."""
        self._delivery.pause()
        if self._delivery_deadline is None:
            self._stream.pause_reading()
            self._heartbeat.pause()

    def resume_reading(self) -> None:
        """See `Link`."""
        self._delivery.resume()

    def close(self) -> None:
        """Send what is queued and a close frame; end when the peer has answered it."""
        if not self._delivery.is_open:
            return
        if self._delivery_deadline is not None:
            self.abort()
            return
        self._delivery.stop()
        self._send_close(NORMAL_CLOSURE)
        # The peer's answer has to be read even if the owner had paused reading.
        self._stream.resume_reading()
        self._close_timeout.begin()

    def abort(self) -> None:
        """See `Link`."""
        self._delivery.stop()
        self._is_deaf = True
        if self._delivery_deadline is not None:
            asyncio.get_running_loop().call_soon(self._finish)
        # asyncio's transports cannot be aborted once they are gone.
        elif not self._delivery.is_finished:
            self._batch.flush()
            self._stream.abort()

    # ------------------------------------------------------------------ for the transport

    def get_buffer(self, sizehint: int) -> Buffer:
        """Let the transport read as much as is fair to other connections."""
        return self._reader.space(self._read_bytes)

    def buffer_updated(self, nbytes: int) -> None:
        """Take the complete messages."""
        self._heartbeat.heard = True
        self._reader.fill(nbytes)
        if self._share is None:
            self._take_read(nbytes)
        elif self._share.has_room:
            self._share.run(partial(self._take_read, nbytes))
        else:
            self._yield()

    def _take_read(self, nbytes: int) -> None:
        is_full = _READ_BYTES <= nbytes == self._read_bytes
        frames = self._take_batch()
        self._fit_reads(nbytes, frames)
        if is_full:
            # libuv would read again at once, and up to 32 times (uv__read).
            self._yield()

    def eof_received(self) -> None:
        """End the connection: half-open ones have no use here. Still deliver what came before."""
        if self._delivery.is_open:
            self._loss = ConnectionLost(f"{self.peer} ended the connection without a close frame")
            self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make the last call to the receiver, after delivering all that came before."""
        self._heartbeat.stop()
        if self._loss is None:
            self._loss = ConnectionLost(f"{self.peer} was lost: {exc or 'the connection ended'}")
            self._loss.__cause__ = exc
        if self._is_all_delivered():
            self._finish()
        else:
            loop = asyncio.get_running_loop()
            self._delivery_deadline = loop.call_later(self._limits.close_timeout_s, self._finish)

    def pause_writing(self) -> None:
        """Report the high-water mark."""
        if self._pace is None:
            self._delivery.writing_paused()
        else:
            self._pace.stream_paused()

    def resume_writing(self) -> None:
        """Report the low-water mark."""
        if self._pace is None:
            self._delivery.writing_resumed()
        else:
            self._pace.stream_resumed()

    # ------------------------------------------------------------------ in

    def _take_batch(self) -> int:
        """Take as much as one turn may, and send the answers together. Return the number of frames taken."""
        if not self._is_client:
            self._batch.begin()
        frames = self._take_all()
        self._batch.end()
        return frames

    def _take_all(self) -> int:
        frames = 0
        try:
            while not self._is_deaf:
                if frames >= _FRAMES_PER_TURN:
                    self._yield()
                    break
                if self._assembly is None:
                    messages = self._reader.take_messages(_FRAMES_PER_TURN - frames)
                    frames += len(messages)
                    self._delivery.deliver(messages)
                frame = self._reader.take_frame()
                if frame is None:
                    break
                frames += 1
                self._take(frame)
        except ProtocolViolation as problem:
            violation = ProtocolViolation(f"{self.peer} broke the websocket protocol: {problem}")
            self._refuse(PROTOCOL_ERROR, violation)
        except MessageTooLarge as error:
            self._refuse(MESSAGE_TOO_BIG, error)
        return frames

    def _yield(self) -> None:
        """Let others have their turn, and go on afterwards."""
        if not self._is_yielding:
            self._is_yielding = True
            self._stream.pause_reading()
            if self._share is None:
                asyncio.get_running_loop().call_soon(self._go_on)
            else:
                unread_bytes = self._reader.held_bytes + len(self._assembly or b"")
                self._share.wait(self._go_on, unread_bytes)

    def _go_on(self) -> None:
        self._is_yielding = False
        self._take_batch()
        self._read_on()

    def _fit_reads(self, nbytes: int, frames: int) -> None:
        """Let the next read take as much as the last one, of so many frames, makes likely."""
        is_bulk = nbytes >= frames * LARGE_BYTES
        if is_bulk and nbytes >= _BULK_BYTES:
            self._read_bytes = _BULK_READ_BYTES
        elif nbytes < IDLE_READ_BYTES:
            if not is_bulk:
                self._read_bytes = IDLE_READ_BYTES
        elif not is_bulk or self._read_bytes < _READ_BYTES:
            self._read_bytes = _READ_BYTES

    def _take(self, frame: Frame) -> None:
        if frame.opcode == CLOSE:
            self._take_close(bytes(frame.payload))
        elif frame.opcode == PING:
            # A peer that pings and does not read must not make the queue grow for ever.
            if self.buffered_bytes <= self._limits.write_high_water_bytes:
                self._send_control(PONG, bytes(frame.payload))
        elif frame.opcode != PONG:
            self._take_data(frame)

    def _take_data(self, frame: Frame) -> None:
        is_continuation = frame.opcode == CONTINUATION
        if is_continuation and self._assembly is None:
            raise ProtocolViolation("a continuation frame continues nothing")
        if not is_continuation and self._assembly is not None:
            raise ProtocolViolation("a new message began inside a fragmented one")
        if frame.is_final and self._assembly is None:
            self._delivery.deliver((frame.payload,))
            return
        # One growing buffer, not a list of parts: a million one-byte parts would cost
        # fifty times their size.
        assembly = bytearray() if self._assembly is None else self._assembly
        if len(assembly) + len(frame.payload) > self._limits.max_message_bytes:
            raise MessageTooLarge(self._limits.max_message_bytes)
        assembly += frame.payload
        self._assembly = None if frame.is_final else assembly
        if frame.is_final:
            self._delivery.deliver((memoryview(assembly),))

    def _take_close(self, payload: bytes) -> None:
        code, reason = read_close(payload)
        fault: ConnectionLost | None = None
        if self._delivery.is_open and code not in _CLEAN_CLOSE_CODES:
            fault = ConnectionLost(f"{self.peer} closed the connection with code {code} {reason}".rstrip())
        self._delivery.stop(fault)
        if not self._has_sent_close:
            self._send_close(NORMAL_CLOSURE)
        self._is_deaf = True
        # Not a second time: asyncio's transport over TLS then lets go of what `buffered_bytes` asks.
        if not self._stream.is_closing():
            self._stream.close()
            self._close_timeout.begin()

    def _refuse(self, code: int, fault: Exception) -> None:
        """Drop a peer for what it sent, with a close frame if it listens."""
        if not self._has_sent_close:
            self._send_close(code)
        self._delivery.fail(fault)

    def _reopen(self) -> None:
        self._heartbeat.heard = True
        self._heartbeat.resume()
        self._read_on()

    def _read_on(self) -> None:
        if self._delivery_deadline is None:
            if not self._is_yielding and not self._delivery.is_holding:
                self._stream.resume_reading()
        elif self._is_all_delivered():
            self._finish()

    def _is_all_delivered(self) -> bool:
        return not self._is_yielding and not self._delivery.has_held

    def _finish(self) -> None:
        """Make the last call to the receiver, now that the connection is gone."""
        self._close_timeout.end()
        if self._delivery_deadline is not None:
            self._delivery_deadline.cancel()
        self._delivery.finish(self._loss if self._delivery.is_open else None)

    # ------------------------------------------------------------------ out

    def _send_message(self, message: Message) -> None:
        self._send_frame(TEXT, message)

    def _send_frame(self, opcode: int, payload: Message) -> None:
        if self._is_client:
            self._write(masked_frame(opcode, payload, os.urandom(4)))
        elif len(payload) < LARGE_BYTES:
            self._write(frame_head(opcode, len(payload)) + payload)
        # A send that failed is reported in a later turn of the loop; until then the transport would complain.
        elif not self._stream.is_closing():
            self._stream.writelines((frame_head(opcode, len(payload)), payload))
            # asyncio's own does not look at the mark before Python 3.12.9 and 3.13.2 (gh-127655).
            if self._stream.get_write_buffer_size() > self._limits.write_high_water_bytes:
                self._set_marks()

    def _set_marks(self) -> None:
        """Set when the transport reports that output piles up; it does so at once if there is cause."""
        self._stream.set_write_buffer_limits(
            high=self._limits.write_high_water_bytes, low=self._limits.write_low_water_bytes
        )

    def _write(self, data: Message) -> None:
        if not self._stream.is_closing():
            self._stream.write(data)

    def _send_control(self, opcode: int, payload: bytes = b"") -> None:
        if self._is_client:
            self._send_frame(opcode, payload)
        else:
            self._batch.send_control(frame_head(opcode, len(payload)) + payload)

    def _send_close(self, code: int) -> None:
        self._has_sent_close = True
        self._send_control(CLOSE, code.to_bytes(2, "big"))
        self._batch.flush()

    def _ping(self) -> None:
        self._unsent_at_ping_bytes = self.buffered_bytes
        self._reader.let_go()
        self._send_control(PING)

    def _show_life(self) -> None:
        # A peer that does not read either must not make the queue grow for ever.
        if self._delivery.is_open and self.buffered_bytes <= self._limits.write_high_water_bytes:
            self._send_control(PONG)

    def _peer_is_silent(self) -> None:
        # While the owner has paused reading, the peer's pong waits in the kernel; so it does after this
        # process was stopped.
        if not self._delivery.is_open or self._delivery.is_paused or has_unread_input(self._socket):
            return
        # A peer that takes its output, however slowly, has not come to the ping yet.
        if self.buffered_bytes < self._unsent_at_ping_bytes or self._is_to_be_kept():
            return
        self._delivery.fail(
            ConnectionLost(f"{self.peer} was silent for {self._limits.ping_timeout_s} s after a ping")
        )

    def _is_to_be_kept(self) -> bool:
        """Return whether a silent peer is a client that has paused: its host still answers.

        Its processes wait for it as soon as it is behind, so no output is lost, not even what they have not
        written yet. A server always reads, or says that it lives. Until the client is heard again, a
        connection that resumes its session may have the link dropped.
        """
        if self._is_client:
            return False
        self._heartbeat.is_overdue = True
        assert self._limits.ping_timeout_s is not None
        does_answer = does_host_answer(self._socket, self._limits.ping_timeout_s)
        if not does_answer and self._is_host_doubted:
            return False
        self._is_host_doubted = not does_answer
        if not does_answer:
            self._heartbeat.judge_again()
        return True


def address_text(address: object) -> str:
    """Return host and port of a socket address, an IPv6 host in brackets."""
    match address:
        case (str() as host, int() as port, *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "unknown"

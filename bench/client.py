"""A websocket client that costs next to nothing, the same for every server that is measured.

It blocks, masks with a key of zeros (so that masking is no work), and finds the
frames of a read without copying them. It decodes a message only when it is asked
to. It knows just enough of the protocol to start processes and see them end, and
refuses to know which server it talks to.
"""

from __future__ import annotations

import os
import socket
import struct
from base64 import b64encode
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

from bench.errors import BenchError

BUFFER_BYTES = 4 << 20
"""Many of the largest messages that a server sends here, so that moving the rest of a read is rare."""

TIMEOUT_S = 30.0
"""Longer than any single answer may take: a server that hangs must not hang the benchmark."""

NO_MASK = bytes(4)
TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA

Span = tuple[int, int]
"""Where the payload of a frame begins and ends in `Client.buffer`."""


class Event(msgspec.Struct, rename="camel"):
    """The parts of a notification's parameters that matter here."""

    process_id: str = ""
    exit_code: int | None = None


class Message(msgspec.Struct):
    """An answer or a notification."""

    id: int | None = None
    method: str = ""
    params: Event = msgspec.field(default_factory=Event)
    result: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    error: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


def frame(message: bytes) -> bytes:
    """A masked text frame."""
    return frame_head(len(message)) + message


def frame_head(length: int, opcode: int = TEXT) -> bytes:
    """What stands before a masked payload of this length."""
    first = 0x80 | opcode
    if length < 126:
        return struct.pack("!BB", first, 0x80 | length) + NO_MASK
    if length < 1 << 16:
        return struct.pack("!BBH", first, 0xFE, length) + NO_MASK
    return struct.pack("!BBQ", first, 0xFF, length) + NO_MASK


def request(request_id: int, method: str, params: Any = None) -> bytes:
    """A request, framed."""
    return frame(msgspec.json.encode({"id": request_id, "method": method, "params": params}))


READ_ONLY: dict[str, Any] = {
    "permissions": {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}],
        },
        "network": "restricted",
    },
    "windowsSandboxLevel": "disabled",
}
"""A sandbox in which everything can be read."""


def start_request(
    request_id: int,
    process_id: str,
    argv: Sequence[str],
    *,
    tty: bool = False,
    stdin: bool = False,
    sandbox: dict[str, Any] | None = None,
) -> bytes:
    """A `process/start`, framed: an empty environment and the root directory, spelt as both servers want."""
    params = {
        "processId": process_id,
        "argv": argv,
        "cwd": "file:///",
        "env": {},
        "tty": tty,
        "pipeStdin": stdin,
        "sandbox": sandbox,
    }
    return request(request_id, "process/start", params)


class Client:
    """One connection, ready for requests. A context manager.

    `has_quick_ack` asks the kernel after every read to acknowledge at once, which
    hides a server's Nagle delays; without it the kernel acknowledges as it does for
    any ordinary client. A frame may take half of the buffer.
    """

    def __init__(
        self,
        url: str,
        *,
        has_quick_ack: bool = False,
        handshake: bool = True,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.buffer = bytearray(buffer_bytes)
        self._half_bytes = buffer_bytes // 2
        self._view = memoryview(self.buffer)
        self._begin = 0
        self._end = 0
        self._has_quick_ack = has_quick_ack
        self._decoder = msgspec.json.Decoder(Message)
        host, _, port = url.removeprefix("ws://").removesuffix("/").rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S)
        except OSError as error:
            raise BenchError(f"{url} can't be reached: {error.strerror}") from error
        # Ours must not be the delay that is measured.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A timeout of Python's would cost a poll(2) per call; the kernel's costs nothing.
        self._socket.settimeout(None)
        limit = struct.pack("ll", int(TIMEOUT_S), 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._upgrade(f"{host}:{port}")
        if handshake:
            self.send(request(0, "initialize", {"clientName": "bench"}))
            self.result(0)
            self.send(frame(b'{"method":"initialized","params":{}}'))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, *parts: bytes) -> None:
        """Send what is framed already."""
        try:
            if len(parts) == 1:
                self._socket.sendall(parts[0])
            else:
                self._send_parts(parts)
        except OSError as error:
            raise BenchError(f"the server does not take more: {error.strerror}") from error

    def _send_parts(self, parts: tuple[bytes, ...]) -> None:
        unsent = sum(map(len, parts)) - self._socket.sendmsg(parts)
        if unsent:
            self._socket.sendall(b"".join(parts)[-unsent:])

    def receive(self) -> list[Span]:
        """Where the frames of the next reads are; at least one, valid until the next call."""
        while True:
            self._read()
            spans = self._spans()
            if spans:
                return spans

    def messages(self) -> Iterator[Message]:
        """Decode what `receive` gives. A refusal raises."""
        for begin, end in self.receive():
            message = self._decoder.decode(self._view[begin:end])
            if message.error:
                raise BenchError(f"the server refused: {bytes(message.error).decode()}")
            yield message

    def result(self, request_id: int) -> bytes:
        """Wait for one answer, as JSON; every other message before and with it is dropped."""
        while True:
            for message in self.messages():
                if message.id == request_id and not message.method:
                    return bytes(message.result)

    def wait_for(self, method: str, process_id: str) -> Event:
        """Wait for a notification about this process; every other before and with it is dropped."""
        while True:
            for message in self.messages():
                if message.method == method and message.params.process_id == process_id:
                    return message.params

    def _read(self) -> None:
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._end > self._half_bytes:
            rest = self._end - self._begin
            self._view[:rest] = self._view[self._begin : self._end]
            self._begin, self._end = 0, rest
        try:
            count = self._socket.recv_into(self._view[self._end :])
        except OSError as error:
            raise BenchError(f"the server sends nothing: {error.strerror}") from error
        if not count:
            raise BenchError("the server hung up")
        if self._has_quick_ack:
            # The kernel forgets it whenever it likes (tcp(7)), so it is asked anew.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self._end += count

    def _spans(self) -> list[Span]:
        """The complete frames in the buffer. A server never masks its frames (RFC 6455, 5.1)."""
        spans: list[Span] = []
        buffer, at, filled = self.buffer, self._begin, self._end
        while filled - at >= 2:
            length = buffer[at + 1]
            begin = at + 2
            if length == 126:
                begin = at + 4
                length = int.from_bytes(buffer[at + 2 : begin], "big")
            elif length == 127:
                begin = at + 10
                length = int.from_bytes(buffer[at + 2 : begin], "big")
            end = begin + length
            if end > filled:
                if end - at > self._half_bytes:
                    raise BenchError(f"a frame of {length} bytes is larger than this client's buffer")
                break
            if buffer[at] == 0x81:
                spans.append((begin, end))
            else:
                self._take_unusual(buffer[at], begin, end)
            at = end
        self._begin = at
        return spans

    def _take_unusual(self, first: int, begin: int, end: int) -> None:
        opcode = first & 0xF
        if opcode == PING:
            self.send(frame_head(end - begin, PONG) + bytes(self._view[begin:end]))
        elif opcode != PONG:
            raise BenchError("the server closed the connection" if opcode == CLOSE else "unexpected frame")

    def _upgrade(self, host: str) -> None:
        key = b64encode(os.urandom(16)).decode()
        self.send(
            f"GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while (end := self.buffer.find(b"\r\n\r\n", 0, self._end)) < 0:
            self._read()
        status = bytes(self.buffer[: self.buffer.find(b"\r\n")])
        if b" 101 " not in status:
            raise BenchError(f"the server refused the upgrade: {status.decode('latin-1')}")
        self._begin = end + 4

"""The end of a WebSocket that holds the conversations of `websocket_cases`, on a blocking socket.

It has no code in common with Paddock, and believes nothing: it writes frames as they are told, and checks
every one that comes. Either side of the handshake, with TLS or without.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import socket
import ssl
import struct
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.conformance.websocket_cases import CLOSE, CONTINUATION, PONG, Answer, Case, Frame

PATIENCE_S = 20.0
"""Only a case that fails anyway takes so long."""

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Violation(Exception):
    """The other end sent what RFC 6455 forbids."""


@dataclass(slots=True)
class Outcome:
    """What has come back."""

    answers: list[Answer] = field(default_factory=list)
    code: int | None = None
    """The code of the close frame; 0 if it had none; None if there was no close frame."""


class Peer:
    """One connection, past its handshake. `is_client` tells which role this end has."""

    def __init__(self, sock: socket.socket, *, is_client: bool) -> None:
        self._socket = sock
        self._is_client = is_client
        self._received = bytearray()
        self._message: tuple[int, bytearray] | None = None

    @classmethod
    def connect(cls, url: str, context: ssl.SSLContext | None) -> Peer:
        """Connect to a server and upgrade."""
        parts = urlsplit(url)
        sock = socket.create_connection((parts.hostname, parts.port), PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=parts.hostname)
        peer = cls(sock, is_client=True)
        key = base64.b64encode(os.urandom(16))
        lines = (b"GET / HTTP/1.1", b"Host: test", b"Upgrade: websocket", b"Connection: Upgrade")
        more = (b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + key, b"", b"")
        sock.sendall(b"\r\n".join((*lines, *more)))
        head = peer._head()
        if not head.startswith(b"HTTP/1.1 101 ") or _accept_of(key) not in head:
            raise Violation(f"the answer to the upgrade is {head!r}")
        return peer

    @classmethod
    def accept(cls, listener: socket.socket, context: ssl.SSLContext | None) -> Peer:
        """Accept one client and let it upgrade."""
        sock, _ = listener.accept()
        sock.settimeout(PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = context.wrap_socket(sock, server_side=True)
        peer = cls(sock, is_client=False)
        names = {}
        for line in peer._head().split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            names[name.lower()] = value.strip()
        accept = b"Sec-WebSocket-Accept: " + _accept_of(names[b"sec-websocket-key"])
        lines = (b"HTTP/1.1 101 Switching Protocols", b"Upgrade: websocket", b"Connection: Upgrade")
        sock.sendall(b"\r\n".join((*lines, accept, b"", b"")))
        return peer

    def hold(self, case: Case) -> Outcome:
        """Hold a conversation to the end of the connection. Raises Violation or TimeoutError."""
        outcome = Outcome()
        expected = 0
        with self._socket:
            # Whoever fails a connection does not read on, and what we send then can't be sent.
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                for turn in case.turns:
                    for piece in turn.chop([self._encode(frame) for frame in turn.frames]):
                        self._socket.sendall(piece)
                    expected += len(turn.answers)
                    while len(outcome.answers) < expected and self._take_frame(outcome):
                        pass
            while self._take_frame(outcome):
                pass
        return outcome

    def _head(self) -> bytes:
        while b"\r\n\r\n" not in self._received:
            if not self._read():
                raise Violation("the connection ended in the handshake")
        head, _, rest = bytes(self._received).partition(b"\r\n\r\n")
        self._received[:] = rest
        return head

    def _encode(self, frame: Frame) -> bytes:
        size = len(frame.payload)
        head = bytes((frame.is_final << 7 | frame.reserved << 4 | frame.opcode,))
        mask_bit = self._is_client << 7
        if size < 126:
            head += bytes((mask_bit | size,))
        elif size < 1 << 16:
            head += struct.pack(">BH", mask_bit | 126, size)
        else:
            head += struct.pack(">BQ", mask_bit | 127, size)
        if not self._is_client:
            return head + frame.payload
        key = os.urandom(4)
        keys = int.from_bytes((key * (size // 4 + 1))[:size], "big")
        return head + key + (int.from_bytes(frame.payload, "big") ^ keys).to_bytes(size, "big")

    def _take_frame(self, outcome: Outcome) -> bool:
        """Take the next frame. False if the connection has ended."""
        head = self._need(2)
        if head is None:
            return False
        size, head_bytes = head[1] & 0x7F, 2
        if bool(head[1] & 0x80) is self._is_client:
            raise Violation("a frame is masked if and only if it should not be")
        if size >= 126:
            head_bytes = 4 if size == 126 else 10
            head = self._need(head_bytes)
            if head is None:
                return False
            size = int.from_bytes(head[2:head_bytes], "big")
        key_bytes = 0 if self._is_client else 4
        whole = self._need(head_bytes + key_bytes + size)
        if whole is None:
            return False
        del self._received[: len(whole)]
        payload = whole[head_bytes + key_bytes :]
        if key_bytes:
            keys = (whole[head_bytes : head_bytes + 4] * (size // 4 + 1))[:size]
            payload = (int.from_bytes(payload, "big") ^ int.from_bytes(keys, "big")).to_bytes(size, "big")
        self._note(outcome, whole[0], payload)
        return True

    def _note(self, outcome: Outcome, first: int, payload: bytes) -> None:
        opcode, is_final = first & 0xF, bool(first & 0x80)
        if first & 0x70:
            raise Violation("a reserved bit is set")
        if outcome.code is not None:
            raise Violation("a frame follows the close frame")
        if opcode & 0x8 and (not is_final or len(payload) > 125):
            raise Violation("a control frame is fragmented or too long")
        if opcode == CLOSE:
            outcome.code = int.from_bytes(payload[:2], "big")
            return
        if opcode == PONG:
            outcome.answers.append(Answer(PONG, payload))
            return
        if (opcode == CONTINUATION) is (self._message is None):
            raise Violation("fragments are mixed up")
        kind, assembly = self._message or (opcode, bytearray())
        assembly += payload
        self._message = None if is_final else (kind, assembly)
        if is_final:
            outcome.answers.append(Answer(kind, bytes(assembly)))

    def _need(self, size: int) -> bytes | None:
        """Give the next bytes without taking them; None if they don't come any more."""
        while len(self._received) < size:
            if not self._read():
                return None
        return bytes(self._received[:size])

    def _read(self) -> bool:
        try:
            data = self._socket.recv(1 << 20)
        except (ConnectionError, ssl.SSLEOFError):
            return False
        self._received += data
        return bool(data)


def _accept_of(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())

"""A websocket client made of bare bytes, for what a proper client would never do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from tests.unit.transport.recorder import PATIENCE_S

T = TypeVar("T")

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA

# struct linger: on, 0 seconds. close(2) then sends a reset (socket(7), SO_LINGER).
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

UPGRADE = {
    "Host": "test",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def request(target: str = "/", headers: dict[str, str] | None = None, method: str = "GET") -> bytes:
    """Encode a request head, by default that of a proper upgrade."""
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (UPGRADE if headers is None else headers).items()]
    return "\r\n".join((*lines, "", "")).encode()


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    is_final: bool = True,
    reserved: int = 0,
    is_masked: bool = True,
    claimed_bytes: int | None = None,
) -> bytes:
    """Encode one frame, which may claim another length than it has."""
    size = len(payload) if claimed_bytes is None else claimed_bytes
    head = bytes([is_final << 7 | reserved << 4 | opcode])
    mask_bit = 0x80 if is_masked else 0
    if size < 126:
        head += bytes([mask_bit | size])
    elif size < 1 << 16:
        head += bytes([mask_bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([mask_bit | 127]) + struct.pack(">Q", size)
    if not is_masked:
        return head + payload
    mask = os.urandom(4)
    key = int.from_bytes((mask * (len(payload) // 4 + 1))[: len(payload)], "big")
    return head + mask + (int.from_bytes(payload, "big") ^ key).to_bytes(len(payload), "big")


async def upgraded_socket(url: str) -> socket.socket:
    """Upgrade a connection and give its bare socket."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    sock = socket.socket()
    sock.setblocking(False)
    await loop.sock_connect(sock, (parts.hostname, parts.port))
    await loop.sock_sendall(sock, request())
    head = await loop.sock_recv(sock, 4096)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return sock


async def upgrade_and_reset(url: str, data: bytes) -> None:
    """Upgrade a connection, then send bytes and an RST right behind them, both before anybody else's turn."""
    with await upgraded_socket(url) as sock:
        sock.send(data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


class RawPeer:
    """One TCP connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wrap an open connection."""
        self._reader = reader
        self._writer = writer

    @classmethod
    async def dial(cls, url: str) -> RawPeer:
        """Connect and send nothing yet."""
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        return cls(reader, writer)

    @classmethod
    async def upgrade(cls, url: str, then: Sequence[bytes] = ()) -> RawPeer:
        """Connect and upgrade; `then` goes out in one segment with the request."""
        peer = await cls.dial(url)
        peer.send(request(), *then)
        head = await peer.head()
        assert head.startswith("HTTP/1.1 101 "), head
        return peer

    def send(self, *pieces: bytes) -> None:
        """Write bytes."""
        self._writer.write(b"".join(pieces))

    async def flush(self) -> None:
        """Wait until the kernel has most of what was sent."""
        await self._writer.drain()

    async def head(self) -> str:
        """Read a response head."""
        async with asyncio.timeout(PATIENCE_S):
            return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def rest(self) -> bytes:
        """Read until the connection ends, in whatever way."""
        received = b""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                while chunk := await self._reader.read(65536):
                    received += chunk
        return received

    async def next_frame(self) -> tuple[int, bytes]:
        """Read one unmasked frame and give opcode and payload."""
        async with asyncio.timeout(PATIENCE_S):
            first, second = await self._reader.readexactly(2)
            size = second & 0x7F
            if size == 126:
                [size] = struct.unpack(">H", await self._reader.readexactly(2))
            elif size == 127:
                [size] = struct.unpack(">Q", await self._reader.readexactly(8))
            return first & 0xF, await self._reader.readexactly(size)

    def stop_reading(self) -> None:
        """Read nothing more, and keep the kernel from making up for it with a larger buffer."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.pause_reading()

    def pause_reading(self) -> None:
        """Read nothing until `go_on_reading`."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def go_on_reading(self) -> None:
        """Read again after `pause_reading`."""
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    @property
    def socket(self) -> socket.socket:
        """The socket below."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        return sock

    def end_output(self) -> None:
        """Send FIN and go on reading."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Send RST."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self._writer.transport.abort()

    async def aclose(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class TlsSocket:
    """A TLS client on a bare socket, which shows its records before they are sent."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Wrap a connected, non-blocking socket; `shake_hands` must follow."""
        self.socket = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._channel = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    @classmethod
    async def dial(cls, url: str, context: ssl.SSLContext) -> TlsSocket:
        """Connect, and say nothing yet."""
        parts = urlsplit(url)
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
        return cls(sock, context)

    @property
    def cipher(self) -> str:
        """The cipher that both ends have agreed on."""
        agreed = self._channel.cipher()
        assert agreed is not None
        return agreed[0]

    def hello(self) -> bytes:
        """The first bytes of the handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._channel.do_handshake()
        return self._outgoing.read()

    async def shake_hands(self) -> None:
        """Complete the handshake."""
        await self._drive(self._channel.do_handshake)

    async def upgrade(self) -> None:
        """Shake hands, and become a websocket."""
        await self.shake_hands()
        await asyncio.get_running_loop().sock_sendall(self.socket, self.records(request()))
        head = await self._drive(lambda: self._channel.read(4096))
        assert head.startswith(b"HTTP/1.1 101 "), head

    def records(self, data: bytes) -> bytes:
        """Give what has to be sent for some bytes."""
        self._channel.write(data)
        return self._outgoing.read()

    def close_notify(self) -> bytes:
        """Give what has to be sent to end the encrypted stream (close_notify); nothing may follow."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._channel.unwrap()
        return self._outgoing.read()

    def send_and_end(self, data: bytes, *, is_reset: bool) -> None:
        """Send bytes, and an RST or a FIN right behind them, all before anybody else's turn."""
        self.socket.send(data)
        if is_reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.socket.close()

    async def _drive(self, step: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    await loop.sock_sendall(self.socket, self._outgoing.read())
                    self._incoming.write(await loop.sock_recv(self.socket, 65536))
                finally:
                    await loop.sock_sendall(self.socket, self._outgoing.read())

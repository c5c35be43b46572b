"""The name of the server that a TLS client asks for, read from its first message (RFC 8446). No I/O.

Only the outer name of an encrypted hello is seen, and a client may leave the name out.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0

HELLO_LIMIT_BYTES: Final = 64 * 1024
"""The largest first message; those of browsers, with post-quantum keys, have 2 KiB."""


class Unnamed(Enum):
    """Why there is no name."""

    INCOMPLETE = "more bytes are needed"
    NOT_TLS = "it is not TLS"
    NO_NAME = "the client asks for no name"
    DAMAGED = "it begins like TLS and can't be read"


def is_tls(data: bytes) -> bool:
    """Return whether bytes begin like a TLS handshake."""
    return data[:1] == bytes((_HANDSHAKE,)) and data[1:2] in (b"", b"\x03")


def server_name(data: bytes) -> str | Unnamed:
    """Return the name that the first bytes of a connection ask for, or why there is none."""
    if not is_tls(data):
        return Unnamed.NOT_TLS
    message = bytearray()
    at = 0
    while True:
        if len(data) < at + 5:
            break
        if data[at] != _HANDSHAKE:
            return Unnamed.DAMAGED
        size = int.from_bytes(data[at + 3 : at + 5])
        message += data[at + 5 : at + 5 + size]
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4]):
            try:
                return _name_in(bytes(message))
            except _TooShort:
                return Unnamed.DAMAGED
        at += 5 + size
    if len(message) >= 4 and int.from_bytes(message[1:4]) > HELLO_LIMIT_BYTES:
        return Unnamed.DAMAGED
    return Unnamed.INCOMPLETE if len(data) < HELLO_LIMIT_BYTES else Unnamed.DAMAGED


class _TooShort(Exception):
    pass


class _Cursor(Struct):
    data: bytes
    at: int = 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise _TooShort
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def block(self, size: int) -> bytes:
        return self.take(self.number(size))


def _name_in(message: bytes) -> str | Unnamed:
    if message[0] != _CLIENT_HELLO:
        return Unnamed.DAMAGED
    hello = _Cursor(_Cursor(message, 1).block(3))
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    if hello.at == len(hello.data):
        return Unnamed.NO_NAME
    extensions = _Cursor(hello.block(2))
    while extensions.at < len(extensions.data):
        kind, content = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names = _Cursor(_Cursor(content).block(2))
            if names.number(1) != _HOST_NAME:
                return Unnamed.DAMAGED
            return names.block(2).decode("ascii", "replace")
    return Unnamed.NO_NAME

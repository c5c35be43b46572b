"""SOCKS 5 (RFC 1928) as a server speaks it: bytes in, a request and bytes out. No I/O.

Connections only: no datagrams, no listening for others. It asks for no authentication.
"""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

from paddock.errors import ProxyRequestError

VERSION: Final = 5
_NO_AUTHENTICATION: Final = 0
_NO_METHOD: Final = 0xFF

_CONNECT: Final = 1
_UDP_ASSOCIATE: Final = 3

_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4


class Reply(IntEnum):
    """The answers to a request."""

    SUCCEEDED = 0
    FAILED = 1
    NOT_ALLOWED = 2
    UNREACHABLE = 4
    COMMAND_NOT_SUPPORTED = 7
    ADDRESS_NOT_SUPPORTED = 8


def encode_reply(reply: Reply) -> bytes:
    """Return the answer to a request. The address in it, which nobody needs, is empty."""
    return bytes((VERSION, reply, 0, _IPV4)) + bytes(6)


class SocksRequest(Struct, frozen=True):
    """The host that the client wants to reach."""

    host: str
    """As it was written."""
    port: int
    is_datagrams: bool = False


class SocksHandshake:
    """Reads a client's bytes until its request is complete. Pass it nothing after that."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_greeted = False
        self._to_send = bytearray()

    def data_to_send(self) -> bytes:
        """Return the bytes to send now, once."""
        data = bytes(self._to_send)
        self._to_send.clear()
        return data

    @property
    def rest(self) -> bytes:
        """Return what came after the request."""
        return bytes(self._buffer)

    def receive(self, data: bytes) -> SocksRequest | None:
        """Take bytes; return the request once it is whole. Raises ProxyRequestError, with an answer due."""
        self._buffer += data
        if not self._is_greeted and not self._greeting():
            return None
        return self._request()

    def _greeting(self) -> bool:
        buffer = self._buffer
        if len(buffer) < 2 or len(buffer) < 2 + buffer[1]:
            return False
        methods = buffer[2 : 2 + buffer[1]]
        if buffer[0] != VERSION or _NO_AUTHENTICATION not in methods:
            self._to_send += bytes((VERSION, _NO_METHOD))
            raise ProxyRequestError("only SOCKS 5 without authentication is supported here")
        del buffer[: 2 + buffer[1]]
        self._to_send += bytes((VERSION, _NO_AUTHENTICATION))
        self._is_greeted = True
        return True

    def _request(self) -> SocksRequest | None:
        buffer = self._buffer
        if len(buffer) < 5:
            return None
        version, command, _, kind, length = buffer[:5]
        if version != VERSION:
            self._refuse(Reply.FAILED, f"a request of SOCKS version {version}")
        sizes = {_IPV4: 4, _NAME: 1 + length, _IPV6: 16}
        if kind not in sizes:
            self._refuse(Reply.ADDRESS_NOT_SUPPORTED, f"an address of the unknown kind {kind}")
        end = 4 + sizes[kind]
        if len(buffer) < end + 2:
            return None
        address = bytes(buffer[4:end])
        port = int.from_bytes(buffer[end : end + 2])
        del buffer[: end + 2]
        if command not in (_CONNECT, _UDP_ASSOCIATE):
            self._refuse(Reply.COMMAND_NOT_SUPPORTED, f"the command {command}")
        match kind:
            case 1:
                host = str(IPv4Address(address))
            case 4:
                host = str(IPv6Address(address))
            case _:
                host = address[1:].decode("ascii", "replace")
        return SocksRequest(host, port, is_datagrams=command == _UDP_ASSOCIATE)

    def _refuse(self, reply: Reply, what: str) -> None:
        self._to_send += encode_reply(reply)
        raise ProxyRequestError(f"{what} is not served here; only connections are")

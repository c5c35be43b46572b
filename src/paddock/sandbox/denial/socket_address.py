"""Parses socket addresses as connect(2) and similar calls take them: bytes in, values out. Pure."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from msgspec import Struct

ADDRESS_BYTES: Final = 128
"""struct sockaddr_storage: no address is longer."""

_AF_UNIX: Final = 1
_AF_INET: Final = 2
_AF_INET6: Final = 10


class InternetAddress(Struct, frozen=True):
    """A host and a port."""

    host: IPv4Address | IPv6Address
    port: int

    @property
    def is_local(self) -> bool:
        """Return whether the address is one of the loopback, or stands for one."""
        host = self.host
        if isinstance(host, IPv6Address):
            host = host.ipv4_mapped or host
        return host.is_loopback or host.is_unspecified

    def __str__(self) -> str:
        host = f"[{self.host}]" if isinstance(self.host, IPv6Address) else str(self.host)
        return f"{host}:{self.port}"


class LocalAddress(Struct, frozen=True):
    """A socket of this host, by its path or, after `@`, by a name that is no path (unix(7))."""

    name: str

    def __str__(self) -> str:
        return self.name


SocketAddress = InternetAddress | LocalAddress


def parse_address(data: bytes) -> SocketAddress | None:
    """Return the address; None if it is of another kind, or none at all."""
    if len(data) < 2:
        return None
    (family,) = struct.unpack_from("=H", data)
    if family == _AF_INET and len(data) >= 8:
        port, host = struct.unpack_from(">H4s", data, 2)
        return InternetAddress(IPv4Address(host), port)
    if family == _AF_INET6 and len(data) >= 24:
        port, _, host6 = struct.unpack_from(">HI16s", data, 2)
        return InternetAddress(IPv6Address(host6), port)
    if family == _AF_UNIX and len(data) > 2:
        is_abstract = data[2] == 0
        name = data[3:] if is_abstract else data[2:].partition(b"\0")[0]
        return LocalAddress("@" * is_abstract + name.decode("utf-8", "surrogateescape"))
    return None

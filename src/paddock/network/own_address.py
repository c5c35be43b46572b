"""Finds the addresses by which other machines reach this one.

Whoever connects to one of them from here is let in where a firewall keeps others out, and reaches what is
meant for this host and its network. The loopback interface is left out: `address.py` knows its own range, and
further addresses there belong to services that are for everybody.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from paddock.network.address import Address

_SIOCGIFCONF: Final = 0x8912
_INTERFACE: Final = struct.Struct("16sH2x4s16x")
"""struct ifreq with an IPv4 address (netdevice(7)), on machines of 64 bits."""
_INTERFACES_EXPECTED: Final = 64
_IPV6_TABLE: Final = "/proc/net/if_inet6"
_LOOPBACK: Final = "lo"


def own_addresses() -> frozenset[Address]:
    """Return the addresses of this host's interfaces now, in the network namespace of this process."""
    return frozenset((*_ipv4(), *_ipv6()))


def _ipv4() -> Iterator[Address]:
    for name, _, address in _INTERFACE.iter_unpack(_configuration()):
        if not _is_loopback(name.rstrip(b"\0").decode("utf-8", "replace")):
            yield IPv4Address(address)


def _configuration() -> bytes:
    """Return what the kernel tells of all interfaces with an IPv4 address."""
    count = _INTERFACES_EXPECTED
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        while True:
            room = array.array("B", bytes(count * _INTERFACE.size))
            start, size = room.buffer_info()
            (used,) = struct.unpack_from(
                "i", fcntl.ioctl(control, _SIOCGIFCONF, struct.pack("iL", size, start))
            )
            if used < size:
                return room.tobytes()[:used]
            # It tells as many as there is room for, and nothing of the rest.
            count *= 2


def _ipv6() -> Iterator[Address]:
    # Without IPv6, or without /proc, there is no such file.
    with suppress(OSError), open(_IPV6_TABLE, "rb") as table:
        for line in table:
            address, *_, name = line.split()
            if not _is_loopback(name.decode("utf-8", "replace")):
                yield IPv6Address(bytes.fromhex(address.decode("ascii")))


def _is_loopback(name: str) -> bool:
    # Further addresses of IPv4 may have a label of their own: lo:1.
    return name.partition(":")[0] == _LOOPBACK

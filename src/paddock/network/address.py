"""Classifies the addresses that an allowed name must not lead to. Pure.

An address that carries another one inside, as those of the transition from IPv4 to IPv6 do, is judged by
both. The ranges of documentation are not here: nobody routes them, so they lead nowhere on a real network.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address


class AddressClass(StrEnum):
    """Why an address is not simply somewhere on the internet."""

    LOOPBACK = "loopback"
    OWN = "host's own"
    """Of one of this host's interfaces."""
    PRIVATE = "private"
    LINK_LOCAL = "link-local"
    METADATA = "metadata of the cloud"
    MULTICAST = "multicast"
    RESERVED = "reserved"

    @property
    def is_local(self) -> bool:
        """Return whether a profile may allow the address; otherwise none may."""
        return self in (AddressClass.LOOPBACK, AddressClass.OWN, AddressClass.PRIVATE)


Range = IPv4Network | IPv6Network

_METADATA: Final[tuple[Range, ...]] = (
    *(IPv4Network(f"{address}/32") for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200")),
    # The wire server of Azure, which gives a machine its settings and certificates, looks like a public one.
    IPv4Network("168.63.129.16/32"),
    *(IPv6Network(f"{address}/128") for address in ("fd00:ec2::254", "fd20:ce::254", "fd00:42::42")),
)

_RANGES: Final[tuple[tuple[Range, AddressClass], ...]] = (
    *((network, AddressClass.METADATA) for network in _METADATA),
    (IPv4Network("127.0.0.0/8"), AddressClass.LOOPBACK),
    (IPv6Network("::1/128"), AddressClass.LOOPBACK),
    (IPv4Network("10.0.0.0/8"), AddressClass.PRIVATE),
    (IPv4Network("172.16.0.0/12"), AddressClass.PRIVATE),
    (IPv4Network("192.168.0.0/16"), AddressClass.PRIVATE),
    (IPv4Network("100.64.0.0/10"), AddressClass.PRIVATE),
    (IPv6Network("fc00::/7"), AddressClass.PRIVATE),
    (IPv6Network("fec0::/10"), AddressClass.PRIVATE),
    (IPv4Network("169.254.0.0/16"), AddressClass.LINK_LOCAL),
    (IPv6Network("fe80::/10"), AddressClass.LINK_LOCAL),
    (IPv4Network("224.0.0.0/4"), AddressClass.MULTICAST),
    (IPv6Network("ff00::/8"), AddressClass.MULTICAST),
    # The kernel takes 0.0.0.0 for this host.
    (IPv4Network("0.0.0.0/8"), AddressClass.RESERVED),
    (IPv4Network("192.0.0.0/24"), AddressClass.RESERVED),
    (IPv4Network("198.18.0.0/15"), AddressClass.RESERVED),
    (IPv4Network("240.0.0.0/4"), AddressClass.RESERVED),
    (IPv6Network("::/128"), AddressClass.RESERVED),
    (IPv6Network("100::/64"), AddressClass.RESERVED),
    (IPv6Network("5f00::/16"), AddressClass.RESERVED),
)

_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_CARRYING: Final = (*_NAT64, IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))
"""Ranges whose last 32 bits are an IPv4 address: also the compatible and the translated ones (RFC 2765)."""


def class_of(address: Address, own: Collection[Address] = ()) -> AddressClass | None:
    """Return the class of an address that is not simply somewhere on the internet; None for one that is.

    `own` are the addresses of this host.
    """
    for network, kind in _RANGES:
        if address.version == network.version and address in network:
            return kind
    if address in own:
        return AddressClass.OWN
    return class_of(inner, own) if (inner := inner_address(address)) is not None else None


def inner_address(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address reach in the end."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _CARRYING):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None

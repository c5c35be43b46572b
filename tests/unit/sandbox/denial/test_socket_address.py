"""Addresses as the kernel takes them."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.sandbox.denial.socket_address import InternetAddress, LocalAddress, parse_address


def inet(host: str, port: int) -> bytes:
    return struct.pack("=H", 2) + struct.pack(">H4s8x", port, IPv4Address(host).packed)


def inet6(host: str, port: int) -> bytes:
    return struct.pack("=H", 10) + struct.pack(">HI16sI", port, 0, IPv6Address(host).packed, 0)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (inet("192.0.2.1", 443), "192.0.2.1:443"),
        (inet6("2001:db8::1", 53), "[2001:db8::1]:53"),
        (b"\x01\x00/run/x.sock\0", "/run/x.sock"),
        (b"\x01\x00/run/x.sock", "/run/x.sock"),
        (b"\x01\x00\0name", "@name"),
    ],
)
def test_addresses_are_told_as_people_write_them(data: bytes, shown: str) -> None:
    assert str(parse_address(data)) == shown


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\x02\x00\x01", b"\x0a\x00" + bytes(8), b"\x01\x00", bytes(16)]
)
def test_what_is_no_address_is_none(data: bytes) -> None:
    assert parse_address(data) is None


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.9", True), ("0.0.0.0", True), ("192.0.2.1", False)],
)
def test_only_the_loopback_is_local(host: str, is_local: bool) -> None:
    for address in (IPv4Address(host), IPv6Address(f"::ffff:{host}")):
        assert InternetAddress(address, 80).is_local is is_local


def test_the_loopback_of_ipv6_is_local() -> None:
    assert InternetAddress(IPv6Address("::1"), 80).is_local
    assert not InternetAddress(IPv6Address("2001:db8::1"), 80).is_local


@given(st.binary(max_size=128))
def test_any_bytes_are_an_address_or_none(data: bytes) -> None:
    address = parse_address(data)
    assert address is None or isinstance(address, (InternetAddress, LocalAddress))
    assert isinstance(str(address), str)

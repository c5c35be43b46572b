"""Hosts on the network, and patterns for them: `host`, `*.host`, `**.host` and `*`, each with a port or not.

Hosts are compared in one normal form. Resolvers take `0177.0.0.1`, `2130706433` and `127.1` for addresses,
so these are addresses here too; the normal form is lower case and has no dot at the end. Pure.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

NAME_LIMIT: Final = 253
"""Length of a name without the dot at its end (RFC 1035 has 255 bytes, of which two are not written)."""

WEB_PORTS: Final = (80, 443)
"""The ports of a grant that names none."""

ANY: Final = "*"

# `re` compiles these on first use: most profiles name no host.
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# One match for all labels: a client may bring a thousand names.
_NAME: Final = rf"{_LABEL}(?:\.{_LABEL})*"
_NUMBER: Final = r"0[xX][0-9a-fA-F]*|[0-9]+"
_PORT: Final = r"[0-9]{1,5}"

LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost", "localhost.localdomain"})
"""Names that hosts use for themselves."""

MAX_PORT: Final = 0xFFFF

REMEMBERED_PATTERNS: Final = 4096
"""Patterns that need not be read again: a start reads those of its profile several times. A pattern that is
valid is short; all of them take 2 MiB at most."""


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host in normal form stands for; None if it is a name."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address

    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def normal_host(text: str) -> str:
    """Return the normal form of a host. Raises ValueError for text that is not a host."""
    from ipaddress import AddressValueError, IPv6Address

    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in host or host != text:
        if "%" in host:
            raise ValueError(f"the host {text!r} has a scope, which means nothing elsewhere; leave it out")
        try:
            address = IPv6Address(host)
        except AddressValueError as error:
            raise ValueError(f"the host {text!r} is not an IPv6 address") from error
        return str(address.ipv4_mapped or address)
    host = host.lower().removesuffix(".")
    if re.fullmatch(_NUMBER, host.rpartition(".")[2]):
        return str(_numeric_address(text, host.split(".")))
    if len(host) > NAME_LIMIT or not re.fullmatch(_NAME, host):
        raise ValueError(f"the host {text[:NAME_LIMIT]!r} is not a host name; write it in ASCII")
    return host


def _numeric_address(text: str, labels: list[str]) -> IPv4Address:
    """Return what inet_aton(3) makes of one to four numbers, decimal, octal or hexadecimal."""
    from ipaddress import IPv4Address

    flaw = ValueError(f"the host {text[:NAME_LIMIT]!r} looks like an address but is not one")
    if (
        len(labels) > 4
        or not all(re.fullmatch(_NUMBER, label) for label in labels)
        or max(map(len, labels)) > NAME_LIMIT
    ):
        raise flaw
    try:
        *head, last = (_number(label) for label in labels)
    except ValueError:
        raise flaw from None
    if any(number > 0xFF for number in head) or last >= 256 ** (4 - len(head)):
        raise flaw
    value = last
    for position, number in enumerate(head):
        value += number << (8 * (3 - position))
    return IPv4Address(value)


def _number(label: str) -> int:
    if label[:2].lower() == "0x":
        return int(label[2:] or "0", 16)
    return int(label, 8 if label.startswith("0") and len(label) > 1 else 10)


def split_port(text: str) -> tuple[str, str | None]:
    """Return a host and the text after the colon, if there is a colon that is not part of the host."""
    if text.startswith("["):
        host, bracket, rest = text.partition("]")
        if rest.startswith(":"):
            return host + bracket, rest[1:]
        return text, None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def parse_port(text: str) -> int:
    """Read a port. Raises ValueError."""
    if not re.fullmatch(_PORT, text) or not 0 < int(text) <= MAX_PORT:
        raise ValueError(f"the port {text[:16]!r} is not a number from 1 to {MAX_PORT}")
    return int(text)


class HostPattern(Struct, frozen=True):
    """A set of hosts, and which of their ports."""

    host: str
    """In normal form; empty for every host."""
    has_itself: bool = True
    """Whether the pattern covers the host itself."""
    has_subdomains: bool = False
    """Whether the pattern covers the names below the host."""
    port: int | None = None
    """None if the pattern names no port."""
    has_any_port: bool = False

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Read a pattern. Raises ValueError with a text that explains the fault."""
        return _parsed(text)

    @classmethod
    def _parse(cls, text: str) -> HostPattern:
        name, port_text = split_port(text)
        has_any_port = port_text == ANY
        try:
            port = None if port_text is None or has_any_port else parse_port(port_text)
            if name == ANY:
                return cls("", has_subdomains=True, port=port, has_any_port=has_any_port)
            stars, dot, host = name.partition(".")
            if stars not in ("*", "**") or not dot:
                stars, host = "", name
            host = normal_host(host)
        except ValueError as error:
            raise ValueError(f"the pattern {text[:NAME_LIMIT]!r} is invalid: {error}") from None
        if stars and parse_address(host) is not None:
            raise ValueError(f"the pattern {text!r} is invalid: an address has no names below it")
        return cls(host, stars != "*", bool(stars), port, has_any_port)

    @property
    def is_for_all(self) -> bool:
        """Return whether the pattern names no host in particular."""
        return not self.host

    def has_host(self, host: str) -> bool:
        """Return whether the pattern covers a host in normal form."""
        if self.is_for_all:
            return True
        if host == self.host:
            return self.has_itself
        return self.has_subdomains and host.endswith("." + self.host)

    def grants(self, host: str, port: int) -> bool:
        """Return whether this pattern, in a list of allowed hosts, covers the host and port."""
        if not self.has_host(host):
            return False
        if self.has_any_port:
            return True
        return port in WEB_PORTS if self.port is None else port == self.port

    def refuses(self, host: str, port: int) -> bool:
        """Return whether this pattern, in a list of denied hosts, covers them; without a port, all ports."""
        return self.has_host(host) and self.port in (None, port)

    def __str__(self) -> str:
        stars = "" if not self.has_subdomains else "**." if self.has_itself else "*."
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = ":*" if self.has_any_port else "" if self.port is None else f":{self.port}"
        return f"{ANY if self.is_for_all else stars + host}{port}"


_parsed = lru_cache(REMEMBERED_PATTERNS)(HostPattern._parse)

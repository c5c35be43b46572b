"""Rules about hosts on the network. Pure.

The same files declare them as the rules about commands. The policy proxy (`paddock.network`) enforces
them for commands whose network is proxied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from paddock.errors import InvalidRule
from paddock.model import endpoint
from paddock.model.decision import Action, Origin
from paddock.model.host_pattern import normal_host
from paddock.model.profile import HostRule


class NetworkProtocol(StrEnum):
    """The protocol to a host."""

    HTTP = "http"
    HTTPS = "https"
    SOCKS5_TCP = "socks5_tcp"
    SOCKS5_UDP = "socks5_udp"


_MEANT = {
    NetworkProtocol.HTTP: endpoint.NetworkProtocol.HTTP,
    NetworkProtocol.HTTPS: endpoint.NetworkProtocol.HTTPS_CONNECT,
    NetworkProtocol.SOCKS5_TCP: endpoint.NetworkProtocol.SOCKS5_TCP,
    NetworkProtocol.SOCKS5_UDP: endpoint.NetworkProtocol.SOCKS5_UDP,
}

RULE_PROTOCOLS = {meant: protocol.value for protocol, meant in _MEANT.items()}
"""A file's name for each protocol by which a command asks its proxy for a host."""

PROTOCOLS = {protocol.value: protocol for protocol in NetworkProtocol} | {
    "https_connect": NetworkProtocol.HTTPS,
    "http-connect": NetworkProtocol.HTTPS,
}
"""Every name that a file may use."""


class NetworkRule(Struct, frozen=True):
    """A rule about one host."""

    host: str
    protocol: NetworkProtocol
    action: Action
    origin: Origin
    justification: str | None = None


def as_host_rules(rules: Iterable[NetworkRule]) -> tuple[HostRule, ...]:
    """Return rules in the form of a profile. Of several about the same host and protocol, the last counts."""
    last = {(normal_host(rule.host), _MEANT[rule.protocol]): rule for rule in rules}
    return tuple(
        HostRule(host=host, protocol=protocol, action=rule.action, origin=str(rule.origin))
        for (host, protocol), rule in last.items()
    )


_BRACKETED = re.compile(r"\[([^\]]*)\](?P<suffix>.*)", re.DOTALL)
_WITH_PORT = re.compile(r"([^:]+):\d+")


def parse_host(text: str) -> str:
    """Parse a host's name or address into the form that rules compare. Raises InvalidRule."""
    host = text.strip()
    if not host:
        raise InvalidRule("invalid rule: network_rule host cannot be empty")
    if "://" in host or any(character in host for character in "/?#"):
        raise InvalidRule(
            "invalid rule: network_rule host must be a hostname or IP literal (without scheme or path)"
        )
    host = _without_port(host).rstrip(".").lower()
    if not host:
        raise InvalidRule("invalid rule: network_rule host cannot be empty")
    if "*" in host:
        raise InvalidRule(
            "invalid rule: network_rule host must be a specific host; wildcards are not allowed"
        )
    if any(character.isspace() for character in host):
        raise InvalidRule("invalid rule: network_rule host cannot contain whitespace")
    return host


def _without_port(host: str) -> str:
    if host.startswith("["):
        bracketed = _BRACKETED.fullmatch(host)
        if bracketed is None:
            raise InvalidRule("invalid rule: network_rule host has an invalid bracketed IPv6 literal")
        if not re.fullmatch(r"(:\d+)?", bracketed["suffix"]):
            raise InvalidRule(f"invalid rule: network_rule host contains an unsupported suffix: {host}")
        return bracketed[1]
    with_port = _WITH_PORT.fullmatch(host)
    return with_port[1] if with_port is not None else host

"""Rules about hosts on the network. Pure.

They are declared in the same files as the rules about commands. What enforces them gets
lists of names; it is not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from paddock.errors import InvalidRule
from paddock.model.decision import Action, Origin


class NetworkProtocol(StrEnum):
    """How a host is reached."""

    HTTP = "http"
    HTTPS = "https"
    SOCKS5_TCP = "socks5_tcp"
    SOCKS5_UDP = "socks5_udp"


PROTOCOLS = {protocol.value: protocol for protocol in NetworkProtocol} | {
    "https_connect": NetworkProtocol.HTTPS,
    "http-connect": NetworkProtocol.HTTPS,
}
"""Every name that a file may use."""


@dataclass(frozen=True, slots=True)
class NetworkRule:
    """What may be done with one host."""

    host: str
    protocol: NetworkProtocol
    action: Action
    origin: Origin
    justification: str | None = None


@dataclass(frozen=True, slots=True)
class NetworkHosts:
    """The hosts that rules name, each in one list at most."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...]


def network_hosts(rules: Iterable[NetworkRule]) -> NetworkHosts:
    """The lists that rules come to. The last rule about a host wins; `prompt` puts it into neither."""
    last = {rule.host: rule.action for rule in rules if rule.action is not Action.PROMPT}
    return NetworkHosts(
        allowed=tuple(host for host, action in last.items() if action is Action.ALLOW),
        denied=tuple(host for host, action in last.items() if action is Action.FORBIDDEN),
    )


_BRACKETED = re.compile(r"\[([^\]]*)\](?P<suffix>.*)", re.DOTALL)
_WITH_PORT = re.compile(r"([^:]+):\d+")


def parse_host(text: str) -> str:
    """A host's name or address as rules are compared by it. Raises InvalidRule."""
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

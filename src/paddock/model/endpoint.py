"""The host that a command wants to reach through a proxy, and the protocol it uses. Values. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class NetworkProtocol(StrEnum):
    """How a command asks the proxy for a host."""

    HTTP = "http"
    """A request whose target is a whole URL."""
    HTTPS_CONNECT = "https_connect"
    """A tunnel, by the method CONNECT."""
    SOCKS5_TCP = "socks5_tcp"
    """A connection, by SOCKS 5."""
    SOCKS5_UDP = "socks5_udp"
    """Datagrams, by SOCKS 5, which no policy allows."""


class Endpoint(Struct, frozen=True):
    """A host, in the normal form of `host_pattern`, and its port."""

    host: str
    port: int
    protocol: NetworkProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

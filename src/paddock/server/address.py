"""Parses the address on which a server listens. Pure."""

from __future__ import annotations

import ipaddress

from msgspec import Struct

from paddock.errors import ListenError

FORMS = "expected ws://IP:PORT, wss://IP:PORT, unix:///path or stdio"


class WebSocketAddress(Struct, frozen=True):
    """A literal IP address and a port; port 0 lets the kernel choose."""

    host: str
    """Never an IPv4-mapped IPv6 address: that is converted to the plain IPv4 address."""
    port: int
    is_secure: bool = False
    """Whether the user wrote `wss`, and so insists on TLS."""

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect."""
        return ipaddress.ip_address(self.host).is_loopback


class UnixAddress(Struct, frozen=True):
    """An absolute path of a socket."""

    path: str


class StdioAddress(Struct, frozen=True):
    """Standard input and output."""


ListenAddress = WebSocketAddress | UnixAddress | StdioAddress


def parse_listen_address(text: str) -> ListenAddress:
    """Read a listen address. Raises ListenError that says what was expected."""
    if text in ("stdio", "stdio://"):
        return StdioAddress()
    if text.startswith("unix://"):
        path = text.removeprefix("unix://")
        if not path.startswith("/") or "\0" in path:
            raise ListenError(
                text, "the path of a unix socket must be absolute, as in unix:///run/paddock.sock"
            )
        return UnixAddress(path)
    if text.startswith(("ws://", "wss://")):
        return _parse_websocket(text)
    raise ListenError(text, f"unsupported address; {FORMS}")


def _parse_websocket(text: str) -> WebSocketAddress:
    scheme, _, rest = text.partition("://")
    host, colon, port = rest.removesuffix("/").rpartition(":")
    if not colon or port.endswith("]"):
        raise ListenError(text, "give a port too, as in ws://127.0.0.1:4100; port 0 lets the kernel choose")
    if host == "localhost":
        # The server does not look this name up: it means this machine, whatever the resolver says.
        host = "127.0.0.1"
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        raise ListenError(
            text, "the host must be localhost or a literal IP address, as in ws://127.0.0.1:0"
        ) from None
    if is_bracketed != (address.version == 6):
        raise ListenError(text, "an IPv6 address stands in brackets, as in ws://[::1]:0")
    if not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise ListenError(
            text, f"the port {port!r} is not a number from 0 to 65535; 0 lets the kernel choose"
        )
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        # The kernel would listen on the IPv4 address, so every check must see that one.
        address = address.ipv4_mapped
    return WebSocketAddress(str(address), int(port), scheme == "wss")

"""A network that reaches only proxies on the host's loopback, which another program runs. A value."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Port = Annotated[int, Meta(ge=0, le=0xFFFF)]


class ManagedNetwork(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The network in the reference's form. Its fields about unix sockets have no effect: all stay closed."""

    loopback_ports: tuple[Port, ...]
    """The ports of the proxies that may be reached."""
    allow_local_binding: bool = False
    """No effect: the command may always listen on its own loopback."""
    allow_unix_sockets: tuple[str, ...] = ()
    """No effect."""
    dangerously_allow_all_unix_sockets: bool = False
    """No effect."""

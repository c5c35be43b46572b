"""A network that leads to proxies on the loopback of the host, which somebody else runs. A value."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Port = Annotated[int, Meta(ge=0, le=0xFFFF)]


class ManagedNetwork(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """As the reference writes it. What it says of unix sockets changes nothing: none are open."""

    loopback_ports: tuple[Port, ...]
    """The ports of the proxies that may be reached."""
    allow_local_binding: bool = False
    """Nothing: the command may always listen on its own loopback."""
    allow_unix_sockets: tuple[str, ...] = ()
    """Nothing."""
    dangerously_allow_all_unix_sockets: bool = False
    """Nothing."""

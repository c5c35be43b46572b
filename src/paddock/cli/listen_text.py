"""Says in words who can connect to a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.config import Settings


def who_can_connect(settings: Settings) -> str:
    """Return who gets in with these settings, and may then run commands as the server's user."""
    listen = settings.listen
    if listen == "stdio":
        return "only the program at its standard input and output can connect"
    if listen.startswith("unix:"):
        return "only its own user can connect"
    if settings.ws_auth is None:
        return "every user and program on this machine can connect, without a token"
    return f"whoever has a {settings.ws_auth.replace('-', ' ')} can connect"

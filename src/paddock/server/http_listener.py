"""Listens for another protocol over HTTP: where, with which certificate, and which requests it accepts.

The rules and the settings are those of Paddock's own listener. `renew` reads the files of the token and of
the certificate again; the address stays.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from msgspec.structs import replace

from paddock.config import Settings
from paddock.errors import ListenError, PaddockError
from paddock.server.address import WebSocketAddress
from paddock.server.http import RequestFilter
from paddock.server.listen_policy import load_listen_policy

if TYPE_CHECKING:
    from ssl import SSLContext, SSLObject


def websocket_url(listen: str) -> str:
    """Return the URL to listen on as settings write it: the same checks, and another scheme."""
    scheme, _, rest = listen.partition("://")
    if scheme not in ("http", "https"):
        raise PaddockError(f"can't listen on {listen}; expected http://IP:PORT or https://IP:PORT")
    return f"{'ws' if scheme == 'http' else 'wss'}://{rest.rstrip('/')}"


class HttpListener:
    """Listens on one port. Raises ConfigError or ListenError if the settings or their files make no sense."""

    def __init__(self, settings: Settings) -> None:
        self._policy = load_listen_policy(settings)
        self._own_origins: frozenset[str] = frozenset()

    @property
    def request_filter(self) -> RequestFilter:
        """Return what decides on the next request."""
        request_filter = self._policy.request_filter
        if self._own_origins and request_filter.is_loopback:
            return replace(request_filter, allowed_origins=request_filter.allowed_origins | self._own_origins)
        return request_filter

    def accept_own_pages(self, port: int) -> None:
        """Accept requests from pages of the server itself, which listens on this port of the loopback."""
        self._own_origins = frozenset(f"http://{name}:{port}" for name in ("localhost", "127.0.0.1", "[::1]"))

    def renew(self, settings: Settings) -> None:
        """Judge and encrypt by these settings from now on; a connection that is open keeps its encryption.

        It reads files, so it may block. Raises what the constructor raises, and then nothing changes.
        """
        self._policy = load_listen_policy(settings)

    def listen(self) -> tuple[socket.socket, str]:
        """Return a socket bound to the address, and the URL of the server there. Raises ListenError."""
        address = self._policy.address
        assert isinstance(address, WebSocketAddress)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        name = f"[{address.host}]" if ":" in address.host else address.host
        scheme = "http" if self._policy.tls is None else "https"
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((address.host, address.port))
        except OSError as error:
            bound.close()
            raise ListenError(
                f"{scheme}://{name}:{address.port}", (error.strerror or str(error)).lower()
            ) from error
        return bound, f"{scheme}://{name}:{bound.getsockname()[1]}"

    def tls_context(self) -> SSLContext | None:
        """Return a context that shows each new client the newest certificate; None if there is none."""
        context = self._policy.tls
        if context is not None:
            context.sni_callback = self._use_newest
        return context

    def _use_newest(self, connection: SSLObject, _name: str | None, _context: SSLContext) -> None:
        # OpenSSL calls this for each client hello, also for one that names no host.
        if self._policy.tls is not None:
            connection.context = self._policy.tls

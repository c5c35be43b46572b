"""Answers plain HTTP requests, and decides which may become a websocket.

In this order: it refuses requests that a web page caused, whatever they ask for; it answers health checks to
everybody; everything else needs the credential, if the server has one. Nothing of a request's headers is ever
logged: they hold the token.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field

from paddock.journal import Journal
from paddock.server.auth import Credential, bearer_refusal
from paddock.transport.http import HttpRequest, HttpResponse

journal = Journal(logging.getLogger(__name__))

WEBSOCKET_PATH: Final = "/"
LIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
HEALTH_PATHS: Final = (LIVE_PATH, READY_PATH)

Page = Callable[[], HttpResponse]
"""Makes the answer to a GET of one path. Must not block."""


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Decides on every request to one listener. The defaults are those of a loopback listener."""

    credential: Credential | None = None
    """Checks the bearer token; None lets everybody in."""

    is_loopback: bool = True
    """Whether only this machine can connect, so that `Host` must name it."""

    allowed_hosts: frozenset[str] = frozenset()
    """Further names, in lower case and without a port, that `Host` may have on a loopback listener."""

    allowed_origins: frozenset[str] = frozenset()
    """Origins, in lower case, whose web pages may come in."""

    pages: Mapping[str, Page] = field(default_factory=dict)
    """Further pages by path, for requests that `authorize` accepts."""

    unreadiness: Callable[[], str | None] = lambda: None
    """Returns why nothing can be started now, for everybody to read; None if it can."""

    clock: Callable[[], float] = time.time

    def answer(self, request: HttpRequest) -> HttpResponse | None:
        """Return the answer to a request, or None to go on with the websocket upgrade."""
        refusal = self._page_refusal(request)
        if refusal is not None:
            journal.info("HTTP request refused", status=refusal.status, path=request.path)
            return refusal
        if request.path in HEALTH_PATHS:
            problem = self.unreadiness() if request.path == READY_PATH else None
            if problem is not None:
                return HttpResponse(status=503, body=f"no command can be started: {problem}\n".encode())
            return HttpResponse(status=200, body=b"ok\n")
        page = self.pages.get(request.path)
        if page is None and request.path != WEBSOCKET_PATH:
            known = ", ".join((*HEALTH_PATHS, *self.pages))
            return HttpResponse(status=404, body=f"the websocket is at /; there are also {known}\n".encode())
        refusal = self.authorize(request)
        if refusal is not None or page is None:
            return refusal
        return page()

    def authorize(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal of a request without the right credential; None lets it pass."""
        if self.credential is None:
            return None
        reason = bearer_refusal(request.headers.get("Authorization"), self.credential, self.clock())
        if reason is None:
            return None
        journal.info("HTTP request refused", status=401, path=request.path, reason=reason)
        # RFC 9110, 15.5.2: a 401 names the scheme that would help.
        return HttpResponse(status=401, body=reason.encode(), headers={"WWW-Authenticate": "Bearer"})

    def _page_refusal(self, request: HttpRequest) -> HttpResponse | None:
        # Browsers, and only they, say in Origin which page a request is from.
        origin = request.headers.get("Origin")
        if origin is not None and origin.lower() not in self.allowed_origins:
            return HttpResponse(
                status=403, body=b"requests from web pages (with an Origin header) are refused\n"
            )
        host = request.headers.get("Host")
        if host is None:
            # RFC 9112, 3.2.
            return HttpResponse(status=400, body=b"the Host header is missing\n")
        if self.is_loopback and not self._is_ours(host):
            return HttpResponse(
                status=403,
                body=b"the Host header names another machine; use 127.0.0.1, [::1] or localhost\n",
            )
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether a `Host` can't be that of a foreign page.

        A page whose own name was made to resolve to 127.0.0.1 (DNS rebinding) counts as
        same-origin and sends no Origin with a plain GET. Its name in Host gives it away.
        """
        name = host_name(host)
        return name is not None and (name == "localhost" or is_loopback(name) or name in self.allowed_hosts)


def host_name(host: str) -> str | None:
    """Return the name in a `Host` header, in lower case, without brackets or port; None if malformed."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, "0"
    if not (port.isascii() and port.isdigit()) or not name:
        return None
    is_bracketed = name.startswith("[") and name.endswith("]")
    if is_bracketed != (":" in name):
        return None
    return name.strip("[]").lower()


def is_loopback(host: str) -> bool:
    """Return whether a host is a literal address that only this machine can reach."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # ::ffff:127.0.0.1 is the IPv4 loopback; Python knows it only since 3.13.
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback

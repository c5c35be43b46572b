"""Websocket listener and client: the HTTP part, up to the upgrade.

A listener shows every well-formed GET request to an `HttpPolicy` first, which may
answer it instead of upgrading. The policy decides on health checks, origins and
credentials. An upgraded connection becomes a `WebSocketLink`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

from paddock.errors import ConnectError, ListenError
from paddock.journal import Journal
from paddock.transport import upgrade
from paddock.transport.arrivals import Arrivals
from paddock.transport.delivery import Introduction
from paddock.transport.handshake import HUNG_UP, ClientHandshake, ServerHandshake
from paddock.transport.http import HttpPolicy, HttpRequest, HttpResponse
from paddock.transport.input_turns import InputTurns
from paddock.transport.limits import CLIENT_LIMITS, WebSocketLimits
from paddock.transport.link import Accept, Link
from paddock.transport.listener import Listener, ListeningSocket, OpenLinks
from paddock.transport.reason import reason_of
from paddock.transport.websocket_link import WebSocketLink, address_text

_journal = Journal(logging.getLogger(__name__))

_FULL: Final = HttpResponse(status=503, body=b"too many connections")
_POLICY_FAILED: Final = HttpResponse(status=500, body=b"internal error")

# asyncio sends without delay (TCP_NODELAY) what says that it is TCP; the default, 0, does not.
_TCP: Final = socket.IPPROTO_TCP

# What a path and a query hold beside letters and digits (RFC 3986, 3.3 and 3.4), and what is quoted already.
_RESOURCE_CHARACTERS: Final = "/?:@!$&'()*+,;=~%"


def _upgrade_everything(request: HttpRequest) -> HttpResponse | None:
    return None


async def listen(
    host: str,
    port: int,
    accept: Accept,
    limits: WebSocketLimits | None = None,
    http: HttpPolicy = _upgrade_everything,
    *,
    ssl_context: ssl.SSLContext | None = None,
) -> WebSocketListener:
    """Listen on one address; port 0 lets the kernel choose. Raises `ListenError`.

    With `ssl_context` every connection is encrypted, and the URL says wss.
    `http` is called for each request before the upgrade and must not block. Requests
    that it never sees get a 400: other methods than GET, other versions than HTTP/1.1,
    a body, no Host. So does a request that `http` lets through and that is no proper
    websocket upgrade. A peer whose head is over 16 KiB is dropped.
    """
    limits = limits or WebSocketLimits()
    scheme = "ws" if ssl_context is None else "wss"
    sock = await _bind(scheme, host, port)
    url = f"{scheme}://{address_text(sock.getsockname())}"
    listener = WebSocketListener(url, accept, limits, http)
    try:
        listener.start(sock, ssl_context)
    except OSError as error:
        sock.close()
        raise ListenError(url, reason_of(error)) from error
    return listener


async def connect(
    url: str,
    accept: Accept,
    limits: WebSocketLimits = CLIENT_LIMITS,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
    ssl_context: ssl.SSLContext | None = None,
) -> Link:
    """Connect to a ws:// or wss:// URL.

    Raises `ConnectError`, or `HandshakeRefused` when the server answered with an HTTP
    status, or what `accept` raises. The headers may hold credentials: they are in none of
    these errors, and redirects and proxies are not followed. Nothing is left open if this
    raises or is cancelled.
    """
    target = _target(url)
    _check_headers(url, headers or {})
    if not target.is_secure:
        ssl_context = None
    elif ssl_context is None:
        ssl_context = ssl.create_default_context()
    introduction = Introduction(accept)
    link = WebSocketLink(introduction, limits, is_client=True)
    handshake = _client_handshake(url, target, headers or {}, link)
    try:
        async with asyncio.timeout(timeout_s):
            sock = await _dial(target.host, target.port)
            await _open(sock, handshake, ssl_context, target.host)
    except TimeoutError as error:
        raise handshake.refusal or ConnectError(url, f"no answer within {timeout_s} s") from error
    except OSError as error:
        raise ConnectError(url, reason_of(error) or HUNG_UP) from error
    introduction.confirm(link)
    return link


class WebSocketListener(Listener):
    """Made by `listen`."""

    def __init__(self, url: str, accept: Accept, limits: WebSocketLimits, http: HttpPolicy) -> None:
        self.url = url
        self._accept = accept
        self._limits = limits
        self._http = http
        self._links = OpenLinks(limits.max_connections)
        self._input_turns = InputTurns()
        self._strangers = self._input_turns.common_share()
        """The share of all that have not become a link."""
        self._arrivals = Arrivals(
            self._make_handshake,
            limit=limits.max_handshakes,
            handshake_timeout_s=limits.handshake_timeout_s,
            shutdown_timeout_s=limits.close_timeout_s,
        )
        self._is_closed = False

    def start(self, sock: ListeningSocket, ssl_context: ssl.SSLContext | None) -> None:
        """Listen on a socket that is bound, and own it."""
        self._arrivals.start(sock, ssl_context)

    def renew(self, http: HttpPolicy, ssl_context: ssl.SSLContext | None) -> None:
        """Judge and encrypt further connections by these. Existing connections go on.

        There is an `ssl_context` if there was one before: the URL stays the same.
        """
        self._http = http
        if ssl_context is not None:
            self._arrivals.encrypt_with(ssl_context)

    def close(self) -> None:
        """See `Listener`."""
        self._is_closed = True
        self._arrivals.close()

    async def aclose(self) -> None:
        """See `Listener`."""
        self.close()
        await self._links.aclose()
        await self._arrivals.aclose()

    def _make_handshake(self, over: Callable[[], None]) -> ServerHandshake:
        return ServerHandshake(
            self._answer,
            self._make_link,
            over,
            self._limits.handshake_timeout_s,
            self._strangers,
        )

    def _make_link(self) -> WebSocketLink:
        return WebSocketLink(
            self._accept,
            self._limits,
            is_client=False,
            turns=self._input_turns,
            started=self._links.add,
            ended=self._links.remove,
        )

    def _answer(self, request: HttpRequest) -> HttpResponse | None:
        try:
            answer = self._http(request)
        except Exception as error:
            _journal.error("HTTP policy failed", error=error, path=request.path)
            return _POLICY_FAILED
        if answer is None and (self._is_closed or self._links.is_full):
            _journal.warning("connection refused", reason="too many connections")
            return _FULL
        return answer


async def _bind(scheme: str, host: str, port: int) -> ListeningSocket:
    address = f"{scheme}://{address_text((host, port))}"
    sock: ListeningSocket | None = None
    try:
        family, sockaddr = (await _resolve(host, port))[0]
        sock = ListeningSocket(family, socket.SOCK_STREAM, _TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # One address means one address: [::] must not take IPv4 as well.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(sockaddr)
    except (OSError, OverflowError) as error:
        if sock is not None:
            sock.close()
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise ListenError(address, reason) from error
    sock.setblocking(False)
    return sock


def _literal(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]] | None:
    """Return family and address of a literal IP, which saves the resolver's thread."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return family, (host, port)
    return None


async def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    literal = _literal(host, port)
    if literal is not None:
        return [literal]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


class _Target(Struct, frozen=True):
    host: str
    port: int
    is_secure: bool
    resource: str
    """Path and query, quoted."""

    @property
    def authority(self) -> str:
        """Return what goes into Host (RFC 9110, 7.2): the port only if it is not the scheme's own."""
        default = 443 if self.is_secure else 80
        return address_text((self.host, self.port)).removesuffix(f":{default}")


def _target(url: str) -> _Target:
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
        resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        resource = quote(resource, _RESOURCE_CHARACTERS)
    except UnicodeError as error:
        reason = "its host or path holds characters that a URL can't carry"
        raise ConnectError(url.rpartition("@")[2], reason) from error
    except ValueError as error:
        reason = f"{str(error)[:1].lower()}{str(error)[1:]}"
        raise ConnectError(url.rpartition("@")[2], reason) from error
    if parts.username is not None:
        raise ConnectError(host, "credentials belong in the headers, not in the URL")
    if parts.scheme not in ("ws", "wss") or not host or not host.isprintable() or parts.fragment:
        raise ConnectError(url, "expected ws://HOST:PORT or wss://HOST:PORT")
    is_secure = parts.scheme == "wss"
    return _Target(host, port or (443 if is_secure else 80), is_secure, resource)


def _check_headers(url: str, headers: Mapping[str, str]) -> None:
    """Refuse what would end a header and begin another one, or what a server would quote in its refusal."""
    for name, value in headers.items():
        if not upgrade.is_token(name) or name.lower() in upgrade.OWN_HEADERS:
            raise ConnectError(url, f"{name!r} can't be the name of an additional header")
        if not (value.isascii() and value.isprintable()):
            raise ConnectError(url, f"the header {name} holds characters that HTTP does not allow")


def _client_handshake(
    url: str, target: _Target, headers: Mapping[str, str], link: WebSocketLink
) -> ClientHandshake:
    key = base64.b64encode(os.urandom(16)).decode()
    request = upgrade.write_request(target.authority, target.resource, key, headers)
    return ClientHandshake(url, request, key, link)


async def _dial(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
    for family, sockaddr in await _resolve(host, port):
        sock = socket.socket(family, socket.SOCK_STREAM, _TCP)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, sockaddr)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _open(
    sock: socket.socket, handshake: ClientHandshake, ssl_context: ssl.SSLContext | None, host: str
) -> None:
    loop = asyncio.get_running_loop()
    try:
        if ssl_context is None:
            await loop.create_connection(lambda: handshake, sock=sock)
        else:
            handshake.connection_made(await _encrypted(sock, handshake, ssl_context, host))
        await handshake.upgraded()
    except BaseException:
        handshake.abort()
        raise


async def _encrypted(
    sock: socket.socket, handshake: ClientHandshake, ssl_context: ssl.SSLContext, host: str
) -> asyncio.Transport:
    """Begin TLS on a connection that the loop owns already.

    With both in one call uvloop writes before it takes hold of the Python object. If that write fails, both
    close the descriptor, and the second close may hit another file.
    """
    loop = asyncio.get_running_loop()
    stream, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
    try:
        if stream.is_closing():
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        encrypted = await loop.start_tls(stream, handshake, ssl_context, server_hostname=host)
    except BaseException:
        stream.abort()
        raise
    assert encrypted is not None
    return encrypted

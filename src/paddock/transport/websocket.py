"""Websocket listener and client: the HTTP part, up to the upgrade.

A listener shows every well-formed GET request to an `HttpPolicy` first, which may
answer it instead of upgrading; health checks, origins and credentials are decided
there and not here. A connection that is upgraded becomes a `WebSocketLink`.
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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, urlsplit

import aiofastnet

from paddock.errors import ConnectError, ListenError
from paddock.journal import Journal
from paddock.transport import upgrade
from paddock.transport.delivery import Introduction
from paddock.transport.handshake import HandshakeDoor, Handshakes, ignore_hang_ups
from paddock.transport.http import HttpPolicy, HttpRequest, HttpResponse
from paddock.transport.limits import CLIENT_LIMITS, WebSocketLimits
from paddock.transport.link import Accept, Link
from paddock.transport.listener import BACKLOG, Listener, OpenLinks
from paddock.transport.opening import HUNG_UP, RESET, Application, Reception
from paddock.transport.reason import reason_of
from paddock.transport.reset_watch import ResetWatch
from paddock.transport.websocket_link import TLS_AHEAD_BYTES, WebSocketLink, address_text

_journal = Journal(logging.getLogger(__name__))

_FULL: Final = HttpResponse(status=503, body=b"too many connections")
_POLICY_FAILED: Final = HttpResponse(status=500, body=b"internal error")

# aiofastnet sends without delay (TCP_NODELAY) what says that it is TCP; the default, 0, does not.
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
) -> Listener:
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
    try:
        listener = _WebSocketListener(url, accept, limits, http)
    except OSError as error:
        sock.close()
        raise ListenError(url, reason_of(error)) from error
    await listener.start(sock, ssl_context)
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

    If the loop reports faults by default, `ignore_hang_ups` becomes its handler for wss.
    """
    target = _target(url)
    _check_headers(url, headers or {})
    if not target.is_secure:
        ssl_context = None
    elif ssl_context is None:
        ssl_context = ssl.create_default_context()
    introduction = Introduction(accept)
    try:
        resets = ResetWatch()
    except OSError as error:
        raise ConnectError(url, reason_of(error)) from error
    link = WebSocketLink(introduction, limits, is_client=True, ended=lambda _: resets.close())
    application = _apply(url, target, headers or {}, link)
    try:
        async with asyncio.timeout(timeout_s) as deadline:
            sock = await _dial(target.host, target.port)
            resets.add(sock, partial(_notice_reset, application, deadline))
            await _open(sock, application, ssl_context, target.host)
    except TimeoutError as error:
        resets.close()
        reason = RESET if application.is_reset else f"no answer within {timeout_s} s"
        raise application.refusal or ConnectError(url, reason) from error
    except OSError as error:
        resets.close()
        raise ConnectError(url, reason_of(error) or HUNG_UP) from error
    except BaseException:
        resets.close()
        raise
    introduction.confirm(link)
    return link


def _notice_reset(application: Application, deadline: asyncio.Timeout) -> None:
    application.connection_reset()
    if not application.is_connected:
        # In the middle of the TLS handshake nobody has the transport, which would wait for its timeout.
        deadline.reschedule(asyncio.get_running_loop().time())


class _Server(Protocol):
    """What aiofastnet's server offers on every Python; asyncio's own has it since 3.13."""

    _clients: Iterable[asyncio.Transport]
    """Every transport that is open; there is no public way to find one."""

    def close(self) -> None: ...
    def abort_clients(self) -> None: ...
    async def wait_closed(self) -> None: ...


class _WebSocketListener(Listener):
    def __init__(self, url: str, accept: Accept, limits: WebSocketLimits, http: HttpPolicy) -> None:
        self.url = url
        self._accept = accept
        self._limits = limits
        self._http = http
        self._links = OpenLinks(limits.max_connections)
        self._handshakes = Handshakes(limits.max_handshakes)
        self._resets = ResetWatch()
        self._server: _Server
        self._is_closed = False

    async def start(self, sock: HandshakeDoor, ssl_context: ssl.SSLContext | None) -> None:
        sock.handshakes = self._handshakes
        sock.resets = self._resets
        sock.hang_up = self._hang_up
        # asyncio's own are 60 s and 30 s, which a peer that says nothing would get.
        tls_options: dict[str, Any] = {
            "ssl": ssl_context,
            "ssl_handshake_timeout": self._limits.handshake_timeout_s,
            "ssl_shutdown_timeout": self._limits.close_timeout_s,
            "ssl_incoming_bio_size": TLS_AHEAD_BYTES,
        }
        # Not the loop's own: uvloop's accepts by the descriptor, and would not ask the door.
        server = await aiofastnet.create_server(
            asyncio.get_running_loop(),
            self._receive,
            sock=sock,
            backlog=BACKLOG,
            **(tls_options if ssl_context is not None else {}),
        )
        self._server = cast(_Server, server)

    def close(self) -> None:
        self._is_closed = True
        self._server.close()

    async def aclose(self) -> None:
        self.close()
        await self._links.aclose()
        # What is left are connections in the middle of their handshake, or of being accepted.
        await asyncio.sleep(0)
        self._server.abort_clients()
        await self._handshakes.aclose()
        await self._server.wait_closed()
        self._resets.close()

    def _receive(self) -> Reception:
        return Reception(self._answer, self._make_link, self._limits.handshake_timeout_s)

    def _make_link(self) -> WebSocketLink:
        return WebSocketLink(
            self._accept,
            self._limits,
            is_client=False,
            started=self._upgraded,
            ended=self._links.remove,
        )

    def _upgraded(self, link: WebSocketLink) -> None:
        self._handshakes.end(link.descriptor)
        self._resets.tell(link.descriptor, link.connection_reset)
        self._links.add(link)

    def _hang_up(self, guest: socket.socket) -> None:
        descriptor = guest.fileno()
        if descriptor < 0:
            return
        # In the middle of a TLS handshake nobody else has the transport.
        for transport in list(self._server._clients):
            if transport.get_extra_info("socket").fileno() == descriptor:
                # In a later turn: aiofastnet has a new transport watched in the next one, though it may be
                # closed by then, and libuv ends the process for a descriptor that it can't watch.
                asyncio.get_running_loop().call_soon(transport.abort)
                return
        # It is about to be made, or the socket to be closed.
        asyncio.get_running_loop().call_soon(self._hang_up, guest)

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


async def _bind(scheme: str, host: str, port: int) -> HandshakeDoor:
    address = f"{scheme}://{address_text((host, port))}"
    sock: HandshakeDoor | None = None
    try:
        family, sockaddr = (await _resolve(host, port))[0]
        sock = HandshakeDoor(family, socket.SOCK_STREAM, _TCP)
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
    """Give family and address of a literal IP, which saves the resolver's thread."""
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


@dataclass(frozen=True, slots=True)
class _Target:
    host: str
    port: int
    is_secure: bool
    resource: str
    """Path and query, quoted."""

    @property
    def authority(self) -> str:
        """What goes into Host (RFC 9110, 7.2): the port only if it is not the scheme's own."""
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
        reason = "its host or path holds what no URL can carry"
        raise ConnectError(url.rpartition("@")[2], reason) from error
    except ValueError as error:
        reason = f"{str(error)[:1].lower()}{str(error)[1:]}"
        raise ConnectError(url.rpartition("@")[2], reason) from error
    if parts.username is not None:
        raise ConnectError(host, "credentials belong into the headers, not into the URL")
    if parts.scheme not in ("ws", "wss") or not host or not host.isprintable() or parts.fragment:
        raise ConnectError(url, "expected ws://HOST:PORT or wss://HOST:PORT")
    is_secure = parts.scheme == "wss"
    return _Target(host, port or (443 if is_secure else 80), is_secure, resource)


def _check_headers(url: str, headers: Mapping[str, str]) -> None:
    """Refuse what would end a header and begin another one, or what a server would quote in its refusal."""
    for name, value in headers.items():
        if not upgrade.is_token(name) or name.lower() in upgrade.OWN_HEADERS:
            raise ConnectError(url, f"{name!r} can't be the name of a further header")
        if not (value.isascii() and value.isprintable()):
            raise ConnectError(url, f"the header {name} holds characters that HTTP does not allow")


def _apply(url: str, target: _Target, headers: Mapping[str, str], link: WebSocketLink) -> Application:
    key = base64.b64encode(os.urandom(16)).decode()
    request = upgrade.write_request(target.authority, target.resource, key, headers)
    return Application(url, request, key, link)


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
    sock: socket.socket, application: Application, ssl_context: ssl.SSLContext | None, host: str
) -> None:
    loop = asyncio.get_running_loop()
    if ssl_context is not None and loop.get_exception_handler() is None:
        loop.set_exception_handler(ignore_hang_ups)
    try:
        await aiofastnet.create_connection(
            loop,
            lambda: application,
            sock=sock,
            ssl=ssl_context,
            server_hostname=host if ssl_context is not None else None,
            ssl_incoming_bio_size=TLS_AHEAD_BYTES if ssl_context is not None else None,
        )
        await application.upgraded()
    except BaseException:
        if application.is_connected:
            application.abort()
        else:
            # Its transport, if it has one, has failed and is done with it.
            sock.close()
        raise

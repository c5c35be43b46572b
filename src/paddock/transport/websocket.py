"""Websocket listener and client: the HTTP part, up to the upgrade.

A listener shows every well-formed GET request to an `HttpPolicy` first, which may
answer it instead of upgrading; health checks, origins and credentials are decided
there and not here. A connection that is upgraded becomes a `WebSocketLink`.

This module and `websocket_link` are the only ones that import picows.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import picows

from paddock.errors import ConnectError, HandshakeRefused, ListenError
from paddock.journal import Journal
from paddock.transport.delivery import Introduction
from paddock.transport.handshake import HandshakeDoor, Handshakes
from paddock.transport.http import HttpPolicy, HttpRequest, HttpResponse
from paddock.transport.limits import CLIENT_LIMITS, WebSocketLimits
from paddock.transport.link import Accept, Link
from paddock.transport.listener import BACKLOG, Listener, OpenLinks
from paddock.transport.reason import reason_of
from paddock.transport.websocket_link import WebSocketLink, address_text

_journal = Journal(logging.getLogger(__name__))

_FULL: Final = HttpResponse(status=503, body=b"too many connections")
_POLICY_FAILED: Final = HttpResponse(status=500, body=b"internal error")


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
    a body, a head over 16 KiB. So does a request that `http` lets through and that is
    no proper websocket upgrade.
    """
    limits = limits or WebSocketLimits()
    scheme = "ws" if ssl_context is None else "wss"
    sock = await _bind(scheme, host, port)
    url = f"{scheme}://{address_text(sock.getsockname())}"
    listener = _WebSocketListener(url, accept, limits, http)
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
    """
    host, port, is_secure = _target(url)
    _check_headers(url, headers or {})
    if is_secure and ssl_context is None:
        ssl_context = ssl.create_default_context()
    introduction = Introduction(accept)
    link = WebSocketLink(introduction, limits)
    try:
        async with asyncio.timeout(timeout_s):
            sock = await _dial(host, port)
            await _upgrade(sock, url, link, limits, headers or {}, ssl_context)
    except picows.WSInvalidStatusError as error:
        raise _refusal(url, error) from error
    except picows.WSError as error:
        raise ConnectError(url, str(error)) from error
    except TimeoutError as error:
        raise ConnectError(url, f"no answer within {timeout_s} s") from error
    except OSError as error:
        raise ConnectError(url, reason_of(error)) from error
    introduction.confirm(link)
    return link


class _Server(Protocol):
    """What aiofastnet's server offers on every Python; asyncio's own has it since 3.13."""

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
        self._server: _Server
        self._is_closed = False

    async def start(self, sock: HandshakeDoor, ssl_context: ssl.SSLContext | None) -> None:
        sock.handshakes = self._handshakes
        # asyncio's own are 60 s and 30 s, which a peer that says nothing would get.
        tls_options: dict[str, Any] = {
            "ssl": ssl_context,
            "ssl_handshake_timeout": self._limits.handshake_timeout_s,
            "ssl_shutdown_timeout": self._limits.close_timeout_s,
        }
        server = await picows.ws_create_server(
            self._route,
            sock=sock,
            backlog=BACKLOG,
            websocket_handshake_timeout=self._limits.handshake_timeout_s,
            max_frame_size=self._limits.largest_frame_bytes,
            logger_name=_discreet_log(),
            **(tls_options if ssl_context is not None else {}),
            # WebSocketLink does both: the automatic pong ignores back-pressure, and the
            # automatic ping insists on an answer.
            enable_auto_pong=False,
            enable_auto_ping=False,
            # Without it, picows hands its reused header buffer to the loop's own transport,
            # which may still refer to it when the next message overwrites it.
            use_aiofastnet=True,
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

    def _route(
        self, request: picows.WSUpgradeRequest
    ) -> picows.WSListener | picows.WSUpgradeResponseWithListener:
        answer = self._answer(request)
        if answer is not None:
            return picows.WSUpgradeResponseWithListener(_to_picows(answer), None)
        _tolerate_connection_list(request)
        return WebSocketLink(self._accept, self._limits, started=self._upgraded, ended=self._links.remove)

    def _upgraded(self, link: WebSocketLink) -> None:
        self._handshakes.end(link.descriptor)
        self._links.add(link)

    def _answer(self, request: picows.WSUpgradeRequest) -> HttpResponse | None:
        path = request.path.decode("latin-1").partition("?")[0]
        try:
            answer = self._http(HttpRequest(request.method.decode("latin-1"), path, request.headers))
        except Exception as error:
            # picows would send the text of the exception to the peer.
            _journal.error("HTTP policy failed", error=error, path=path)
            return _POLICY_FAILED
        if answer is None and (self._is_closed or self._links.is_full):
            _journal.warning("connection refused", reason="too many connections")
            return _FULL
        return answer


def _discreet_log() -> logging.Logger:
    """Give picows a log for faults alone.

    It would tell of each connection, as the server does in its own words, and at its finest
    level of each request, with the credentials in it.
    """
    log = logging.getLogger(f"{__name__}.picows")
    log.setLevel(logging.WARNING)
    return log


async def _bind(scheme: str, host: str, port: int) -> HandshakeDoor:
    address = f"{scheme}://{address_text((host, port))}"
    sock: HandshakeDoor | None = None
    try:
        family, sockaddr = (await _resolve(host, port))[0]
        sock = HandshakeDoor(family, socket.SOCK_STREAM)
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


def _target(url: str) -> tuple[str, int, bool]:
    """Check a URL completely: what picows would refuse later would leak the connected socket."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConnectError(url, str(error)) from error
    if parts.scheme not in ("ws", "wss") or not parts.hostname or parts.fragment:
        raise ConnectError(url, "expected ws://HOST:PORT or wss://HOST:PORT")
    if parts.username is not None:
        raise ConnectError(parts.hostname, "credentials belong into the headers, not into the URL")
    is_secure = parts.scheme == "wss"
    return parts.hostname, port or (443 if is_secure else 80), is_secure


def _check_headers(url: str, headers: Mapping[str, str]) -> None:
    """Refuse what would end a header and begin another one, or what a server would quote in its refusal."""
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ConnectError(url, f"the header {name} holds characters that HTTP does not allow")


async def _dial(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
    for family, sockaddr in await _resolve(host, port):
        sock = socket.socket(family, socket.SOCK_STREAM)
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


def _refusal(url: str, error: picows.WSInvalidStatusError) -> HandshakeRefused:
    status = int(error.response.status) if error.response is not None else 0
    # picows keeps only what came in one segment with the head.
    return HandshakeRefused(url, status, (error.raw_body or b"").decode("utf-8", "replace"))


async def _upgrade(
    sock: socket.socket,
    url: str,
    link: WebSocketLink,
    limits: WebSocketLimits,
    headers: Mapping[str, str],
    ssl_context: ssl.SSLContext | None,
) -> None:
    try:
        await picows.ws_connect(
            lambda request, response: link,
            url,
            socket_factory=lambda target: sock,
            ssl_context=ssl_context,
            extra_headers=headers,
            max_redirects=0,
            websocket_handshake_timeout=None,
            max_frame_size=limits.largest_frame_bytes,
            logger_name=_discreet_log(),
            enable_auto_pong=False,
            use_aiofastnet=True,
        )
        # picows returns as if nothing was wrong when the server just hangs up.
        if not link.is_connected:
            raise ConnectError(url, "the server ended the connection during the handshake")
    except BaseException:
        if link.is_connected:
            link.abort()
        else:
            # ws_connect leaves its transport open when it is cancelled or fails, and does not
            # hand it out. Shutting the socket down below makes the transport close itself.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        raise


def _to_picows(answer: HttpResponse) -> picows.WSUpgradeResponse:
    headers = {**answer.headers, "Content-Type": answer.content_type}
    if not answer.body:
        # picows omits the length of an empty body, and clients would wait for one.
        headers = {**answer.headers, "Content-Length": "0"}
    response: picows.WSUpgradeResponse = picows.WSUpgradeResponse.create_ok_response(answer.body, headers)
    response.status = HTTPStatus(answer.status)
    return response


def _tolerate_connection_list(request: picows.WSUpgradeRequest) -> None:
    """Accept `Connection: keep-alive, Upgrade`, which RFC 9110 allows and picows does not."""
    tokens = request.headers.get("Connection", "").split(",")
    if any(token.strip().lower() == "upgrade" for token in tokens):
        request.headers["Connection"] = "upgrade"

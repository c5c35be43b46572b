"""Turns a URL and options into a function that makes a link each time one is needed.

Reports every mistake in the options before it dials. The token appears in no error, no log line and no repr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from paddock.client.resume import Dial
from paddock.errors import ConnectError
from paddock.transport.limits import CLIENT_LIMITS
from paddock.transport.link import Accept, Link

if TYPE_CHECKING:
    from ssl import SSLContext

Token = str | Callable[[], str]
"""A token, or a function that returns a fresh one for each connection."""

AUTHORIZATION: Final = "Authorization"


@dataclass(frozen=True, slots=True, kw_only=True)
class DialOptions:
    """How to reach a server and authenticate to it."""

    timeout_s: float = 10.0
    token: Token | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssl_context: SSLContext | None = None
    tls_ca: str | PathLike[str] | None = None
    tls_verify: bool = True
    ping_interval_s: float | None = 10.0
    ping_timeout_s: float | None = 10.0


def dialer(url: str, options: DialOptions) -> Dial:
    """Return a function that connects to `url`. Raises ConnectError or ValueError for options that can't
    work."""
    scheme, separator, rest = url.partition("://")
    match scheme.lower() if separator else "":
        case "ws":
            _refuse_tls(options, "the address is ws://, which has no TLS; did you mean wss://?")
            return _websocket(url, options)
        case "wss":
            return _websocket(url, options)
        case "unix":
            if not rest.startswith("/"):
                raise ConnectError(
                    url, "the path of a unix socket must be absolute, as in unix:///run/x.sock"
                )
            if options.token is not None or options.headers:
                raise ValueError("token and headers are for ws:// and wss://; a unix socket needs neither")
            _refuse_tls(options, "TLS is for wss://; a unix socket needs none")
            return _unix(rest, options)
        case _:
            raise ConnectError(
                url, "unsupported address; expected ws://HOST:PORT, wss://HOST:PORT or unix:///path"
            )


def _websocket(url: str, options: DialOptions) -> Dial:
    if options.token is not None and any(name.lower() == AUTHORIZATION.lower() for name in options.headers):
        raise ValueError(f"give a token or a header {AUTHORIZATION}, not both")
    is_secure = url.lower().startswith("wss:")
    ssl_context = options.ssl_context or (_tls_context(url, options) if is_secure else None)
    limits = replace(
        CLIENT_LIMITS, ping_interval_s=options.ping_interval_s or None, ping_timeout_s=options.ping_timeout_s
    )

    async def dial(accept: Accept) -> Link:
        # Each transport is imported only when it is used: the websocket transport's dependencies are large.
        from paddock.transport import websocket

        return await websocket.connect(
            url,
            accept,
            limits,
            headers=_headers(options),
            timeout_s=options.timeout_s,
            ssl_context=ssl_context,
        )

    return dial


def _unix(path: str, options: DialOptions) -> Dial:
    async def dial(accept: Accept) -> Link:
        from paddock.transport import unix

        return await unix.connect(path, accept, CLIENT_LIMITS, timeout_s=options.timeout_s)

    return dial


def _headers(options: DialOptions) -> dict[str, str]:
    headers = dict(options.headers)
    if options.token is not None:
        token = options.token if isinstance(options.token, str) else options.token()
        # The token becomes part of a header line, where other characters would change the header's meaning.
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token must be printable ASCII without spaces")
        headers[AUTHORIZATION] = f"Bearer {token}"
    return headers


def _refuse_tls(options: DialOptions, problem: str) -> None:
    if options.ssl_context is not None or options.tls_ca is not None or not options.tls_verify:
        raise ValueError(problem)


def _tls_context(url: str, options: DialOptions) -> SSLContext:
    import ssl

    try:
        context = ssl.create_default_context(cafile=options.tls_ca)
    except ssl.SSLError as error:
        raise ConnectError(url, f"{options.tls_ca} holds no certificates in PEM form") from error
    except OSError as error:
        raise ConnectError(url, f"can't use {options.tls_ca}: {error.strerror or error}") from error
    if not options.tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context

"""The public entry point: turns a URL into an open `Box`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from paddock.client.answering import RequestHandler
from paddock.client.box import Box
from paddock.client.connection import Connection
from paddock.client.dial import DialOptions, Token, dialer
from paddock.client.opening import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, open_box
from paddock.client.private_server import NAME as PRIVATE_SERVER
from paddock.client.private_server import PrivateServer
from paddock.client.reconnect import ReconnectPolicy
from paddock.client.resume import Dial
from paddock.errors import ConnectError, ConnectionLost, RequestTimeout
from paddock.transport.limits import CLIENT_LIMITS
from paddock.transport.link import Accept, Link

if TYPE_CHECKING:
    from ssl import SSLContext

PING_INTERVAL_S = 10.0
"""With as much time to answer, the client notices a dead link within 20 s, before the server's 30 s are over.
"""

RECONNECT = ReconnectPolicy()

Reconnect = ReconnectPolicy | Literal[False] | None
"""How to reconnect after a loss; None and False mean never."""


def connect(
    url: str | None = None,
    *,
    client_name: str = "paddock-python",
    token: Token | None = None,
    headers: Mapping[str, str] | None = None,
    request_timeout_s: float | None = REQUEST_TIMEOUT_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    reconnect: Reconnect = RECONNECT,
    resume: str | None = None,
    tls_ca: str | PathLike[str] | None = None,
    tls_verify: bool = True,
    ssl_context: SSLContext | None = None,
    ping_interval_s: float | None = PING_INTERVAL_S,
    ping_timeout_s: float | None = PING_INTERVAL_S,
    on_request: Mapping[str, RequestHandler] | None = None,
    allow_escalation: bool = False,
) -> Connecting:
    """Connect to a server and open a session on it.

    `url` is `ws://HOST:PORT`, `wss://HOST:PORT` or `unix:///path`; None starts a
    private server that ends with the session. Use it as a context manager, or await
    it and call `aclose` on the box:

        async with paddock.connect("ws://127.0.0.1:4100") as box:
            print((await box.run(["uname", "-a"])).stdout)

    `token` is sent as `Authorization: Bearer`; a function is called for each connection, for tokens that
    expire. `headers` go with the websocket upgrade. For wss://, `tls_ca` is a file of certificates to trust
    instead of the system's, `tls_verify=False` trusts any, and `ssl_context` replaces both. A websocket is
    pinged every `ping_interval_s` and counts as lost when nothing arrives for `ping_timeout_s` after a ping.

    When the connection is lost, the client reconnects as `reconnect` says and resumes the session; see
    `ReconnectPolicy`. `resume` is the id of a session that another client has left; `Box.attach` returns its
    processes. `request_timeout_s` bounds every request, including the time it waits for a connection, except
    requests that wait for a process to read or to end.

    `on_request` maps the names of the server's requests, such as "process/execApproval", to functions that
    answer them. The client calls each with the parameters, in a task of its own, and each returns or awaits
    the result. The client does not ask a function the same question again after a lost connection. It cancels
    a function when the server no longer needs its answer. If a function raises, the client answers with an
    error.

    With `allow_escalation` a private server lets programs out of sandboxes as the rules of this client say
    (`intercept` of `Box.start`); another server has its own settings.

    Raises ConnectError (HandshakeRefused when an HTTP server turns it away), any error that the server
    answers with, UnknownSession and SessionAttached with `resume`, and ValueError for options that do not go
    together. Nothing stays open or running after a failure or a cancellation.
    """
    if url is None and resume is not None:
        raise ValueError("a session to resume needs the url of its server")
    if url is not None and allow_escalation:
        raise ValueError("whether a server lets programs out of sandboxes is up to its settings")
    options = DialOptions(
        timeout_s=connect_timeout_s,
        token=token,
        headers=headers or {},
        ssl_context=ssl_context,
        tls_ca=tls_ca,
        tls_verify=tls_verify,
        ping_interval_s=ping_interval_s,
        ping_timeout_s=ping_timeout_s,
    )
    return Connecting(
        url,
        client_name,
        options,
        request_timeout_s,
        reconnect or None,
        resume,
        on_request,
        allow_escalation=allow_escalation,
    )


class Connecting:
    """A connection that is made when it is awaited or entered."""

    def __init__(
        self,
        url: str | None,
        client_name: str,
        options: DialOptions,
        request_timeout_s: float | None,
        policy: ReconnectPolicy | None,
        resume: str | None,
        on_request: Mapping[str, RequestHandler] | None,
        *,
        allow_escalation: bool = False,
    ) -> None:
        self._allow_escalation = allow_escalation
        self._url = url
        self._client_name = client_name
        self._options = options
        self._request_timeout_s = request_timeout_s
        self._policy = policy
        self._resume = resume
        self._on_request = dict(on_request or {})
        self._box: Box | None = None

    def answer(self, method: str, handler: RequestHandler) -> None:
        """Register a function that answers one more kind of request; call this before connecting.

        Raises ValueError if `on_request` already has a function for that request.
        """
        if method in self._on_request:
            raise ValueError(f"on_request has a function for {method!r} already")
        self._on_request[method] = handler

    def __await__(self) -> Generator[Any, None, Box]:
        return self._open().__await__()

    async def __aenter__(self) -> Box:
        self._box = await self._open()
        return self._box

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._box is not None
        await self._box.aclose()

    async def _open(self) -> Box:
        try:
            async with asyncio.timeout(self._options.timeout_s):
                if self._url is None:
                    return await self._open_private()
                return await self._open_box(dialer(self._url, self._options), self._policy)
        except (ConnectionLost, RequestTimeout) as error:
            raise ConnectError(self._target, str(error)) from error
        except TimeoutError as error:
            raise ConnectError(self._target, f"no answer within {self._options.timeout_s} s") from error

    @property
    def _target(self) -> str:
        return self._url or PRIVATE_SERVER

    async def _open_box(
        self,
        dial: Dial,
        policy: ReconnectPolicy | None,
        when_closed: Callable[[], Awaitable[None]] | None = None,
    ) -> Box:
        return await open_box(
            Connection(request_timeout_s=self._request_timeout_s, on_request=self._on_request),
            dial,
            client_name=self._client_name,
            policy=policy,
            connect_timeout_s=self._options.timeout_s,
            resume=self._resume,
            when_closed=when_closed,
            url=self._url,
        )

    async def _open_private(self) -> Box:
        from paddock.transport import stdio

        server, sock = await PrivateServer.start(allow_escalation=self._allow_escalation)

        async def dial(accept: Accept) -> Link:
            return await stdio.connect_socket(sock, accept, CLIENT_LIMITS, peer=PRIVATE_SERVER)

        try:
            # A private server ends with its only connection: there is no server to reconnect to.
            return await self._open_box(dial, None, server.aclose)
        except ConnectionLost as error:
            await server.aclose()
            reason = f"it ended with status {server.returncode}; see its message on standard error"
            raise ConnectError(PRIVATE_SERVER, reason) from error
        except BaseException:
            sock.close()
            await server.aclose()
            raise

"""Serves another protocol over HTTP, as an ASGI application, behind the checks of Paddock's own listener.

It refuses a page in a browser by its Origin, a name that was made to resolve to this host by its Host, and
every request without the token. It drops whoever does not send a request in time, as Paddock's own listener
does. It needs uvicorn, which comes with the extras that use this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, cast

import uvicorn

from paddock.server.http import WEBSOCKET_PATH, RequestFilter
from paddock.server.http_listener import HttpListener
from paddock.transport.arrivals import Arrivals
from paddock.transport.http import Headers, HttpRequest, HttpResponse
from paddock.transport.listener import BACKLOG, ListeningSocket

STRANGERS: Final = 256
"""Clients that may be in the middle of their first request; when another comes, the oldest is dropped."""

HEAD_LIMIT_BYTES: Final = 16 * 1024
"""The largest head of a request, as at Paddock's own listener. One of the shortest lines takes 20 ms."""

HEAD_TIMEOUT_S: Final = 5.0
"""How long a TLS handshake, and the head of a request, may take."""

SHUTDOWN_S: Final = 2
"""How long answers under way may take when the server is told to stop."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def headers_of(scope: Scope) -> Headers:
    """Return the headers of a request."""
    return Headers((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])


def refusal_of(request_filter: RequestFilter, method: str, headers: Headers) -> HttpResponse | None:
    """Return the refusal of a request; None if it is accepted."""
    # The filter's own paths are those of another server, and the application knows its own.
    return request_filter.answer(HttpRequest(method, WEBSOCKET_PATH, headers))


async def refuse(refusal: HttpResponse, send: Send) -> None:
    """Answer with a refusal."""
    headers = [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
    headers.append((b"content-type", refusal.content_type.encode()))
    # Nobody who is refused keeps a connection.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    # The text of the refusal is meant for another transport.
    await send({"type": "http.response.body", "body": refusal.body.replace(b"websocket ", b"")})


class _Uvicorn(uvicorn.Server):
    """Leaves signals to its caller: the library would raise them again before anything is cleaned up.

    Leaves the accepting of clients to its caller, too: the library would wait for their requests for ever.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: Any = None) -> None:
        """Begin, without a socket."""
        await super().startup([])
        self._started()

    def visitor(self, over: Callable[[], None]) -> _Visitor:
        """Return the protocol of a client."""
        make = cast(Any, self.config.http_protocol_class)
        inner = make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        return _Visitor(inner, over)


class _Visitor(asyncio.Protocol):
    """One client: passes everything on to the library's protocol, but bounds the time of heads."""

    def __init__(self, inner: Any, over: Callable[[], None]) -> None:
        self.is_connected = False
        self._inner = inner
        self._over = over
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self.is_connected = True
        self._transport = cast(asyncio.Transport, transport)
        self._inner.connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Pass it on, and look whether that was all of a head."""
        self._inner.data_received(data)
        cycle = self._inner.cycle
        if cycle is None or cycle.response_complete:
            # Behind an answer the library itself waits for the first byte of the next request.
            self._wait_for_head()
        else:
            self._over()
            self._stop_waiting()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return cast("bool | None", self._inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._over()
        self._stop_waiting()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    def _wait_for_head(self) -> None:
        if self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(HEAD_TIMEOUT_S, self._transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def serve_application(
    listener: HttpListener,
    application: Callable[[int], Application],
    *,
    announce: Callable[[str], None],
    stop: asyncio.Event,
    has_lifespan: bool = False,
) -> None:
    """Serve until `stop` is set. Raises ListenError.

    `application` makes the application for a port, and `announce` gets the URL once clients can connect.
    """
    bound, url = listener.listen()
    config = uvicorn.Config(
        application(bound.getsockname()[1]),
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
        lifespan="on" if has_lifespan else "off",
        ws="none",
        h11_max_incomplete_event_size=HEAD_LIMIT_BYTES,
    )
    config.load()
    sock = ListeningSocket(fileno=bound.detach())
    sock.setblocking(False)
    sock.listen(BACKLOG)
    server = _Uvicorn(config, lambda: arrivals.start(sock, listener.tls_context()))
    arrivals = Arrivals(
        server.visitor,
        limit=STRANGERS,
        handshake_timeout_s=HEAD_TIMEOUT_S,
        shutdown_timeout_s=SHUTDOWN_S,
    )
    serving = asyncio.create_task(server.serve([]))
    stopping = asyncio.create_task(stop.wait())
    try:
        # The socket listens: a client that connects from now on waits a moment at most.
        announce(url)
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        arrivals.close()
        server.should_exit = True
        await serving
    finally:
        server.should_exit = True
        stopping.cancel()
        await arrivals.aclose()
        sock.close()
        await asyncio.gather(serving, stopping, return_exceptions=True)

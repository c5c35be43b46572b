"""Serves another protocol over HTTP, as an ASGI application, behind the checks of Paddock's own listener.

It refuses a page in a browser by its Origin, a name that was made to resolve to this host by its Host, and
every request without the token. It needs uvicorn, which comes with the extras that use this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from paddock.server.http import WEBSOCKET_PATH, RequestFilter
from paddock.server.http_listener import HttpListener
from paddock.transport.http import Headers, HttpRequest, HttpResponse

BACKLOG: Final = 128
"""Clients that connect before the server has started."""

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
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    # The text of the refusal is meant for another transport.
    await send({"type": "http.response.body", "body": refusal.body.replace(b"websocket ", b"")})


class _Uvicorn(uvicorn.Server):
    """Leaves signals to its caller: the library would raise them again before anything is cleaned up."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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
    )
    config.load()
    # Not file names: the library would read the files once, and by its own rules.
    config.ssl = listener.tls_context()
    server = _Uvicorn(config)
    bound.listen(BACKLOG)
    serving = asyncio.create_task(server.serve([bound]))
    stopping = asyncio.create_task(stop.wait())
    try:
        # The socket listens: a client that connects from now on waits a moment at most.
        announce(url)
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        server.should_exit = True
        stopping.cancel()
        await asyncio.gather(serving, stopping, return_exceptions=True)

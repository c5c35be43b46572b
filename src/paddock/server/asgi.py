"""Serves another protocol over HTTP, as an ASGI application, behind the checks of Paddock's own listener.

It refuses a page in a browser by its Origin, a name that was made to resolve to this host by its Host, and
every request without the token. It drops whoever does not send a request in time, and gives all who have not
sent one a single share of the time for input, as Paddock's own listener does. It needs uvicorn, which comes
with the extras that use this.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, cast

import h11
import uvicorn

from paddock.server.http import WEBSOCKET_PATH, RequestFilter
from paddock.server.http_listener import HttpListener
from paddock.transport.arrivals import Arrivals
from paddock.transport.http import HEAD_LINES, Headers, HttpRequest, HttpResponse
from paddock.transport.input_turns import InputShare, InputTurns
from paddock.transport.listener import BACKLOG, ListeningSocket

STRANGERS: Final = 256
"""Clients that may be in the middle of their first request; when another comes, the oldest is dropped."""

HEAD_LIMIT_BYTES: Final = 16 * 1024
"""The largest head of a request, as at Paddock's own listener."""

PIECE_BYTES: Final = 2 * 1024
"""The library handles at once what it gets at once. Of the smallest chunks of a body, these take some
milliseconds; it takes ordinary input at 100 MiB/s in such pieces."""

HEAD_TIMEOUT_S: Final = 5.0
"""How long a TLS handshake, and the head of a request, may take."""

SHUTDOWN_S: Final = 2
"""How long answers under way may take when the server is told to stop."""

_HEAD_END: Final = re.compile(rb"\n\r?\n")

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
        self._turns = InputTurns()
        self._strangers = self._turns.common_share()

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
        inner.conn = _BoundedConnection(h11.SERVER, HEAD_LIMIT_BYTES)
        return _Visitor(inner, over, self._strangers, self._turns.share())


class _BoundedConnection(h11.Connection):
    """Reads HTTP, and refuses a head of many lines before it looks at them."""

    def next_event(self) -> Any:
        """See h11."""
        if self.their_state is h11.IDLE:
            data, _ = self.trailing_data
            end = _HEAD_END.search(data)
            if data.count(b"\n", 0, len(data) if end is None else end.start()) >= HEAD_LINES:
                raise h11.RemoteProtocolError(f"a head has at most {HEAD_LINES} lines", error_status_hint=431)
        return super().next_event()


class _Visitor(asyncio.Protocol, asyncio.Transport):
    """One client: stands between its connection and the library's protocol.

    It bounds the time of heads. It passes what comes on in pieces, within a share of the time for input:
    until a head is complete, the one that all strangers have together.
    """

    def __init__(self, inner: Any, over: Callable[[], None], strangers: InputShare, own: InputShare) -> None:
        super().__init__()
        self.is_connected = False
        self._inner = inner
        self._over = over
        self._share = strangers
        self._own = own
        self._transport: asyncio.Transport
        self._kept = bytearray()
        """What has come and is not passed on."""
        self._is_waiting = False
        """Whether there is a turn to come."""
        self._is_paused = False
        """Whether the library wants no more for now."""
        self._is_reading = True
        self._has_ended = False
        """Whether the client sends nothing more."""
        self._deadline: asyncio.TimerHandle | None = None

    # --- in -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self.is_connected = True
        self._transport = cast(asyncio.Transport, transport)
        self._inner.connection_made(self)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Pass on what this turn of the loop has time for. Of strangers, each turn has one.

        Each head begins work that this does not see.
        """
        self._kept += data
        while self._share is self._own and self._has_more and not self._is_waiting and self._own.has_room:
            self._share.run(self._take)
        self._go_on()

    def eof_received(self) -> bool | None:
        """Pass it on, after all that came before it."""
        self._has_ended = True
        if self._has_more:
            return True
        return cast("bool | None", self._inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._kept.clear()
        self._over()
        self._stop_waiting()
        self._inner.connection_lost(exc)

    @property
    def _has_more(self) -> bool:
        """Return whether anything is kept that can be passed on."""
        return bool(self._kept) and not self._is_paused

    def _turn(self) -> None:
        self._is_waiting = False
        if self._has_more:
            self._take()
        self._go_on()

    def _take(self) -> None:
        """Pass a piece on, and look whether that was all of a head."""
        if self._transport.is_closing():
            self._kept.clear()
            return
        piece = bytes(self._kept[:PIECE_BYTES])
        del self._kept[:PIECE_BYTES]
        self._inner.data_received(piece)
        cycle = self._inner.cycle
        if cycle is None or cycle.response_complete:
            # Behind an answer the library itself waits for the first byte of the next request.
            self._wait_for_head()
        else:
            self._share = self._own
            self._over()
            self._stop_waiting()

    def _go_on(self) -> None:
        """Ask for a turn if there is more, end if there is none, and read if there is room."""
        if self._transport.is_closing():
            return
        if self._has_more and not self._is_waiting:
            self._is_waiting = True
            self._share.wait(self._turn, len(self._kept))
        elif self._has_ended and not self._kept:
            self._inner.eof_received()
            self._transport.close()
        is_wanted = not self._kept and not self._is_paused
        if is_wanted is not self._is_reading and not self._has_ended:
            self._is_reading = is_wanted
            if is_wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def pause_reading(self) -> None:
        """Pass nothing on until `resume_reading`."""
        self._is_paused = True
        self._go_on()

    def resume_reading(self) -> None:
        """Go on."""
        self._is_paused = False
        self._go_on()

    # --- out ----------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send data."""
        self._transport.write(data)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()

    def is_closing(self) -> bool:
        """Return whether the connection ends."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End the connection when everything has left."""
        self._transport.close()

    def abort(self) -> None:
        """End it now."""
        self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Ask the connection."""
        return self._transport.get_extra_info(name, default)

    # --- the time of heads --------------------------------------------------

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
        http="h11",
        ws="none",
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

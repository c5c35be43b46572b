"""Serves many clients over streamable HTTP: checks each request, and finds the session it belongs to.

The checks are those of Paddock's own server: it refuses a page in a browser by its Origin, a name that was
made to resolve to this host by its Host, and every request without the token. A client of the handshake era
has a session of its own; stateless requests share one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CancelledNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from paddock.mcp_server.call_table import CallTable
from paddock.mcp_server.service import Context, Service, request_name
from paddock.server.asgi import (
    Application,
    Message,
    Receive,
    Scope,
    Send,
    headers_of,
    refusal_of,
    refuse,
    serve_application,
)
from paddock.server.http_listener import HttpListener

PATH: Final = "/mcp"
SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"

IDLE_S: Final = 1800.0
"""A session without any request for this long ends, with its commands."""

SESSION_LIMIT: Final = 1000
"""The most sessions of the handshake era; each costs a few kilobytes until it runs something."""

BODY_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""The largest request; the largest patch or text to type has a megabyte, and JSON may double it."""

NOTIFICATION_LIMIT_BYTES: Final = 16 * 1024
"""The largest notification in which the server looks for a cancelled request; one has a few hundred bytes."""

ACCEPTED: Final = 202


class Closing(Protocol):
    """The calls and the end of a session."""

    @property
    def calls(self) -> CallTable:
        """Return its calls."""

    async def aclose(self) -> None:
        """End it, with all that it runs."""


S = TypeVar("S", bound=Closing)


class HttpSessions(Generic[S]):
    """The sessions of all clients, each made by `open_session`. `aclose` ends them."""

    def __init__(self, open_session: Callable[[], S]) -> None:
        self._open_session = open_session
        self._sessions: dict[str | None, S] = {}
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, context: Context) -> S:
        """Return the session that a request belongs to."""
        session_id = None
        if context.request is not None and context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            session_id = context.request.headers.get(SESSION_HEADER)
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = self._open_session()
        if session_id is not None:
            self._stay(session_id)
        return session

    def end(self, session_id: str) -> None:
        """End a session, if there is one."""
        session = self._sessions.pop(session_id, None)
        timer = self._idle.pop(session_id, None)
        if timer is not None:
            timer.cancel()
        if session is not None:
            task = asyncio.get_running_loop().create_task(session.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def cancel(self, asked: Hashable) -> None:
        """End the call of a stateless client that waits for the answer to this request's question."""
        session = self._sessions.get(None)
        if session is not None:
            session.calls.cancel(asked)

    async def aclose(self) -> None:
        """End all sessions."""
        for timer in self._idle.values():
            timer.cancel()
        await asyncio.gather(*self._closing, *(session.aclose() for session in self._sessions.values()))

    def _stay(self, session_id: str) -> None:
        known = self._idle.pop(session_id, None)
        if known is not None:
            known.cancel()
        self._idle[session_id] = asyncio.get_running_loop().call_later(IDLE_S, self.end, session_id)


class Guard:
    """Lets permitted requests through, and notices which sessions and calls their clients end."""

    def __init__(self, application: Application, listener: HttpListener, sessions: HttpSessions[Any]) -> None:
        self._application = application
        self._listener = listener
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application does."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = headers_of(scope)
        refusal = refusal_of(self._listener.request_filter, scope["method"], headers)
        if refusal is not None:
            await refuse(refusal, send)
            return
        if scope["method"] == "POST" and headers.get(VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            await self._serve_stateless(scope, receive, send)
            return
        await self._application(scope, receive, send)
        if scope["method"] == "DELETE" and (session_id := headers.get(SESSION_HEADER)) is not None:
            self._sessions.end(session_id)

    async def _serve_stateless(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and end the call that it cancels.

        The SDK accepts every notification of a stateless client and drops it: closing the stream of a request
        cancels it. A request that was answered with a question has no stream any more.
        """
        body, status = bytearray(), 0

        async def receive_copying() -> Message:
            message = await receive()
            if len(body) <= NOTIFICATION_LIMIT_BYTES:
                body.extend(message.get("body", b""))
            return message

        async def send_watching(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self._application(scope, receive_copying, send_watching)
        if status == ACCEPTED and len(body) <= NOTIFICATION_LIMIT_BYTES:
            with suppress(ValidationError):
                cancelled = CancelledNotification.model_validate_json(bytes(body))
                self._sessions.cancel(request_name(HTTPConnection(scope), cancelled.params.request_id))


def application(service: Service, listener: HttpListener, port: int, sessions: HttpSessions[Any]) -> Guard:
    """Return the whole server as an ASGI application."""
    inner = service.server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY_LIMIT_BYTES,
        session_idle_timeout=IDLE_S,
        max_sessions=SESSION_LIMIT,
        # Checked by the guard, and once is enough.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    listener.accept_own_pages(port)
    return Guard(inner, listener, sessions)


async def serve_http(
    listener: HttpListener,
    service: Service,
    sessions: HttpSessions[Any],
    *,
    announce: Callable[[str], None],
    stop: asyncio.Event,
) -> None:
    """Serve until `stop` is set, then end the sessions. Raises ListenError.

    `announce` gets the URL once clients can connect.
    """
    try:
        await serve_application(
            listener,
            lambda port: application(service, listener, port, sessions),
            announce=lambda url: announce(f"{url}{PATH}"),
            stop=stop,
            has_lifespan=True,
        )
    finally:
        await sessions.aclose()

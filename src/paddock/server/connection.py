"""One client: the link, the protocol state, the requests under way, and the session it is attached to.

This is where the pieces meet; it holds no policy of its own. Reading stops while
too many requests wait or too much output is unsent, so a client that does not
read its answers costs bounded memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.config import Settings
from paddock.errors import OperationFailed, RequestError
from paddock.process.spawner import Spawner
from paddock.protocol.codec import CodecLimits
from paddock.protocol.envelope import write_error, write_notification, write_result
from paddock.protocol.session import ClientCapabilities
from paddock.protocol.structure import Result
from paddock.rpc.serving import Call, Drop, Ready, Refusal, ServingConnection
from paddock.server.dispatch import Dispatcher, Then
from paddock.server.session import Session, SessionProcess
from paddock.server.sessions import SessionRegistry
from paddock.transport.link import Link

log = logging.getLogger(__name__)

UNREAD_ANSWERS_FACTOR = 8
"""Output stops at one send buffer; only answers fill further ones. At this many it is not read."""

HandlerTable = Mapping[str, Callable[["ClientConnection", Any], Any]]


@dataclass(frozen=True, slots=True)
class Services:
    """What every connection of a server shares."""

    settings: Settings
    spawner: Spawner
    sessions: SessionRegistry
    handlers: HandlerTable


class ClientConnection:
    """A Receiver for one link. `aclose` follows `link_closed` and ends what is unfinished."""

    def __init__(self, link: Link, services: Services, on_closed: Callable[[ClientConnection], None]) -> None:
        self.services = services
        self.capabilities = ClientCapabilities()
        self.unanswered_starts: set[SessionProcess] = set()
        """Processes whose events wait for the answer to their start."""
        self._link = link
        self._on_closed = on_closed
        settings = services.settings
        limits = CodecLimits(max_values=settings.max_json_values, max_depth=settings.max_json_depth)
        self._protocol = ServingConnection(link.peer, limits)
        self._dispatcher = Dispatcher(settings.concurrent_requests, self._carry_out, self._finish)
        self._session: Session | None = None
        self._is_congested = False
        self._is_reading = True
        self._is_open = True

    # --- what handlers use --------------------------------------------------

    @property
    def session(self) -> Session:
        """The session; every method but `initialize` has one."""
        assert self._session is not None
        return self._session

    @property
    def has_extensions(self) -> bool:
        """Whether the client wants more than the reference protocol's shapes."""
        return self.capabilities.extensions

    def greet(self, session: Session, capabilities: ClientCapabilities) -> None:
        """`initialize` succeeded: attach to the session and remember what the client understands."""
        self._session = session
        self.capabilities = capabilities
        self._protocol.greeted()

    # --- Outbox -------------------------------------------------------------

    @property
    def is_congested(self) -> bool:
        """Whether more than a send buffer is unsent."""
        return self._is_congested

    def notify(self, method: str, params: Result, *, is_optional: bool = False) -> None:
        """Send a notification."""
        if not is_optional or method in self.capabilities.notifications:
            self._link.send(write_notification(method, params))

    # --- Receiver -----------------------------------------------------------

    def message_received(self, message: bytes) -> None:
        """One message of the client."""
        match self._protocol.receive(message):
            case Call() as call:
                self._dispatcher.submit(call)
                if self._is_congested or self._dispatcher.waiting:
                    self._read_if_there_is_room()
            case Refusal(reply):
                self._send(reply)
            case Ready():
                pass
            case Drop(reason):
                log.warning("dropping %s: %s", self._link.peer, reason)
                self._link.abort()

    def writing_paused(self) -> None:
        """The client reads too slowly: its processes wait."""
        self._is_congested = True
        if self._session is not None:
            self._session.pause_output()

    def writing_resumed(self) -> None:
        """The client has caught up."""
        self._is_congested = False
        if self._session is not None:
            self._session.resume_output()
        self._read_if_there_is_room()

    def link_closed(self, error: Exception | None) -> None:
        """The connection is gone; the session lives on without it."""
        self._is_open = False
        if error is not None:
            log.info("lost %s: %s", self._link.peer, error)
        if self._session is not None:
            self._session.detach()
        self._on_closed(self)

    async def aclose(self) -> None:
        """End the requests that nobody waits for any more."""
        self._link.abort()
        await self._dispatcher.aclose()
        for entry in self.unanswered_starts:
            entry.begin_unanswered()
        self.unanswered_starts.clear()

    # --- requests -----------------------------------------------------------

    def _carry_out(self, call: Call) -> Any:
        return self.services.handlers[call.method.name](self, call.params)

    def _finish(self, call: Call, result: Any, error: Exception | None) -> None:
        then = None
        if type(result) is Then:
            result, then = result.outcome, result.action
        refusal = error or result
        if isinstance(refusal, RequestError):
            self._send(write_error(call.id, refusal))
        elif error is None:
            self._send(write_result(call.id, result))
        else:
            log.error("%s failed on %s", call.method.name, self._link.peer, exc_info=error)
            problem = OperationFailed(f"{call.method.name} failed in the server; see its log")
            self._send(write_error(call.id, problem))
        if then is not None:
            then()
        if not self._is_reading or self._is_congested:
            self._read_if_there_is_room()

    def _has_too_many_unread_answers(self) -> bool:
        # Only while the link is congested: its end is what starts the reading again.
        limit_bytes = UNREAD_ANSWERS_FACTOR * self.services.settings.send_buffer_bytes
        return self._is_congested and self._link.buffered_bytes >= limit_bytes

    def _send(self, message: bytes) -> None:
        self._link.send(message)

    def _read_if_there_is_room(self) -> None:
        settings = self.services.settings
        has_room = (
            self._dispatcher.waiting < settings.queued_requests
            and self._dispatcher.waiting_bytes < settings.max_message_bytes
            and not self._has_too_many_unread_answers()
        )
        if has_room == self._is_reading or not self._is_open:
            return
        self._is_reading = has_room
        if has_room:
            self._link.resume_reading()
        else:
            self._link.pause_reading()

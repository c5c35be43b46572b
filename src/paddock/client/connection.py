"""The client's end of one link: requests and their answers, and whom each event is for.

A `Connection` runs no tasks: the link calls it, and it wakes whoever waits. When
the link is gone every pending request and every process fails with
ConnectionLost; nothing is ever made up. It knows processes only as inboxes.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from typing import Final, TypeVar

from paddock.client.inbox import Inbox
from paddock.client.intake import Intake, IntakeLimits
from paddock.client.pending import Pending
from paddock.errors import (
    ConnectionLost,
    MessageTooLarge,
    OperationFailed,
    PaddockError,
    ProcessExists,
    ProtocolError,
    RequestTimeout,
    TransportError,
)
from paddock.protocol.envelope import RequestId
from paddock.protocol.process import ClosedEvent, ExitedEvent, FailedEvent, OutputEvent
from paddock.protocol.structure import Params, Result
from paddock.rpc.calling import Answered, CallingConnection, Failed, Told
from paddock.transport.link import Link, Receiver

R = TypeVar("R", bound=Result)

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES: Final = 16 << 20
"""The largest frame that servers accept; a larger one would cost the whole connection."""


class Answer(Pending[Result | PaddockError]):
    """The answer to a request, or the reason why there will be none."""

    __slots__ = ("request_id",)

    def __init__(self, request_id: RequestId) -> None:
        super().__init__()
        self.request_id = request_id


class Connection:
    """A Receiver for one link. Make it, let a transport `attach` it, and `aclose` it at the end."""

    def __init__(self, *, request_timeout_s: float | None = None, limits: IntakeLimits | None = None) -> None:
        self._request_timeout_s = request_timeout_s
        self._rpc = CallingConnection()
        self._answers: dict[RequestId, Answer] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._intake: Intake[Inbox] = Intake(limits or IntakeLimits(), self._set_reading)
        self._link: Link | None = None
        self._fault: Exception | None = None
        self._is_closing = False
        self._closed = asyncio.Event()

    def attach(self, link: Link) -> Receiver:
        """Take over a link; this is the `Accept` to give to a transport."""
        self._link = link
        return self

    @property
    def peer(self) -> str:
        """The server, for messages."""
        return self._link.peer if self._link is not None else "the server"

    # --- requests -----------------------------------------------------------

    async def request(self, method: str, params: Params | None, kind: type[R]) -> R:
        """Send a request and wait for its answer.

        Raises what the server answered, ConnectionLost, or RequestTimeout. A caller that
        is cancelled gives up on the answer only: the request may still take effect.
        """
        return await self.result(self.submit(method, params), kind)

    def submit(self, method: str, params: Params | None) -> Answer:
        """Send a request now, after all earlier ones. Pass the answer to `result`, or `forget` it.

        Raises MessageTooLarge, UnicodeEncodeError for text that JSON can't carry, and
        ConnectionLost; nothing was sent then.
        """
        if self._link is None or self._is_closing or self._closed.is_set():
            raise self._loss()
        request_id, message = self._rpc.request(method, params)
        if len(message) > MAX_REQUEST_BYTES:
            self._rpc.forget(request_id)
            raise MessageTooLarge(MAX_REQUEST_BYTES)
        answer = self._answers[request_id] = Answer(request_id)
        self._link.send(message)
        return answer

    def forget(self, answer: Answer) -> None:
        """Nobody wants the answer any more. Nothing happens when it was there."""
        self._answers.pop(answer.request_id, None)
        self._rpc.forget(answer.request_id)

    async def result(self, answer: Answer, kind: type[R]) -> R:
        """Wait for an answer within the connection's request timeout."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                return await self.slow_result(answer, kind, self._intake.impatience())
        except TimeoutError as error:
            raise RequestTimeout(f"{self.peer} did not answer within {self._request_timeout_s} s") from error

    async def slow_result(self, answer: Answer, kind: type[R], urgency: AbstractContextManager[None]) -> R:
        """Wait for an answer that may take as long as the process likes; see `Inbox.waiting`."""
        try:
            outcome = await answer.wait(urgency)
        finally:
            self.forget(answer)
        if isinstance(outcome, PaddockError):
            raise outcome
        assert isinstance(outcome, kind)
        return outcome

    def initialized(self) -> None:
        """Complete the handshake."""
        if self._link is not None:
            self._link.send(self._rpc.initialized())

    # --- processes ----------------------------------------------------------

    def open_inbox(self, process_id: str, *, is_kept_alive: bool = False) -> Inbox:
        """Have the events of a process kept, from before it is started. Raises ProcessExists."""
        if process_id in self._inboxes:
            raise ProcessExists(process_id)
        inbox = Inbox(process_id, self._intake, is_kept_alive=is_kept_alive)
        self._inboxes[process_id] = inbox
        return inbox

    def find_inbox(self, process_id: str) -> Inbox | None:
        """The inbox of a process that has not closed."""
        return self._inboxes.get(process_id)

    def drop_inbox(self, inbox: Inbox) -> None:
        """Ignore the process from now on."""
        inbox.discard()
        if self._inboxes.get(inbox.process_id) is inbox:
            del self._inboxes[inbox.process_id]

    @property
    def inboxes(self) -> list[Inbox]:
        """The processes that have not closed."""
        return list(self._inboxes.values())

    @property
    def unread_bytes(self) -> int:
        """Output that has arrived and was not read, of all processes."""
        return self._intake.unread_bytes

    # --- Receiver -----------------------------------------------------------

    def message_received(self, message: bytes) -> None:
        """One message of the server."""
        try:
            event = self._rpc.receive(message)
            match event:
                case Told():
                    self._told(event.params)
                case Answered():
                    self._settle(event.id, event.result)
                case Failed():
                    self._settle(event.id, event.error)
                case None:
                    pass
        except ProtocolError as error:
            log.warning("dropping %s: %s", self.peer, error)
            self._fault = error
            assert self._link is not None
            self._link.abort()

    def writing_paused(self) -> None:
        """Nothing to do: only writes are big, and each process has a bounded window of them."""

    def writing_resumed(self) -> None:
        """See `writing_paused`."""

    def link_closed(self, error: Exception | None) -> None:
        """Fail everything that is pending."""
        self._fault = self._fault or error
        self._closed.set()
        for answer in self._answers.values():
            answer.resolve(self._loss())
        for inbox in self._inboxes.values():
            inbox.fail(self._loss())
        self._inboxes.clear()

    # --- the end ------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return not (self._is_closing or self._closed.is_set())

    async def aclose(self) -> None:
        """Send what is queued, end the link and wait until it is gone, which the transport bounds."""
        self._is_closing = True
        if self._link is not None:
            self._link.close()
            await self._closed.wait()

    def abort(self) -> None:
        """Drop the link now."""
        self._is_closing = True
        if self._link is not None:
            self._link.abort()

    # --- inside -------------------------------------------------------------

    def _told(self, params: Result) -> None:
        if isinstance(params, OutputEvent | ExitedEvent | ClosedEvent):
            inbox = self._inboxes.get(params.process_id)
            if inbox is None:
                return
            inbox.receive(params)
            if inbox.is_closed:
                del self._inboxes[params.process_id]
            if self._intake.must_drop:
                self._make_room()
        elif isinstance(params, FailedEvent):
            inbox = self._inboxes.pop(params.process_id, None)
            if inbox is not None:
                inbox.fail(OperationFailed(params.message))

    def _settle(self, request_id: RequestId, outcome: Result | PaddockError) -> None:
        answer = self._answers.pop(request_id, None)
        if answer is not None:
            answer.resolve(outcome)

    def _make_room(self) -> None:
        largest = max(
            self._intake.holders, key=lambda inbox: (not inbox.is_read, self._intake.unread_of(inbox))
        )
        largest.overrun()

    def _set_reading(self, wanted: bool) -> None:
        if self._link is None or not self.is_open:
            return
        if wanted:
            self._link.resume_reading()
        else:
            self._link.pause_reading()

    def _loss(self) -> ConnectionLost:
        if self._is_closing and self._fault is None:
            return ConnectionLost(f"the connection to {self.peer} was closed on this side")
        if self._fault is None:
            return ConnectionLost(f"{self.peer} ended the connection")
        # Transports name the peer in their errors.
        is_told = isinstance(self._fault, TransportError)
        loss = ConnectionLost(str(self._fault) if is_told else f"dropped {self.peer}: {self._fault}")
        loss.__cause__ = self._fault
        return loss

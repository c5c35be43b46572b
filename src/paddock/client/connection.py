"""The client's end of a session: matches answers to requests and passes each event to its process.

A `Connection` runs over one link at a time:

    attach, greet, open     a link is there, the server has answered, requests go out
    the link is lost        `revive` is asked for another. If it promises one, requests that
                            may be repeated wait for it, and `open` has everything read that
                            the processes wrote meanwhile
    otherwise               every request fails with ConnectionLost and every process is lost;
                            nothing is ever made up

It runs no tasks but those of `answering`: the link calls it, and it wakes the tasks that wait. It knows
processes only as inboxes, and does not know how a link is made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, TypeVar

from paddock.client.answering import Answering, RequestHandler
from paddock.client.flow_control import FlowControl, FlowLimits
from paddock.client.inbox import Inbox
from paddock.client.request import Answer, Outcome, Requests
from paddock.client.watchers import Watchers
from paddock.errors import (
    ConnectionLost,
    PaddockError,
    ProcessExists,
    ProcessLost,
    ProtocolError,
    RequestError,
    RequestTimeout,
    TransportError,
)
from paddock.protocol.methods import INITIALIZE
from paddock.protocol.process import ReadParams, ReadResult
from paddock.protocol.process_event import ClosedEvent, ExitedEvent, FailedEvent, OutputEvent
from paddock.protocol.question import QuestionClosedEvent
from paddock.protocol.session import InitializeParams, InitializeResult
from paddock.protocol.structure import Params, Result
from paddock.rpc.calling import Asked, Told, Unanswerable
from paddock.transport.link import Link, Received, Receiver

R = TypeVar("R", bound=Result)

PAGE_BYTES: Final = 64 * 1024
"""How much missed output to request at once, after a larger answer was cut off by another lost connection."""

log = logging.getLogger(__name__)


def _nobody(loss: ConnectionLost) -> bool:
    """Promise nothing."""
    return False


class Connection:
    """Requests and inboxes over successive links. `aclose` it at the end."""

    def __init__(
        self,
        *,
        request_timeout_s: float | None = None,
        limits: FlowLimits | None = None,
        on_request: Mapping[str, RequestHandler] | None = None,
    ) -> None:
        self.revive: Callable[[ConnectionLost], bool] = _nobody
        """Called when an open link is lost. Returns whether `attach` or `give_up` will follow."""
        self.peer = "the server"
        """The server, for messages."""
        self.watchers = Watchers()
        """The watches that receive changes to files."""
        self.answering = Answering(on_request or {}, self._reply)
        """The functions that answer the server's questions."""
        self._request_timeout_s = request_timeout_s
        self._requests = Requests()
        self._inboxes: dict[str, Inbox] = {}
        self._catching_up: set[Inbox] = set()
        self._paged: set[Inbox] = set()
        self._can_page = False
        self._flow_control: FlowControl[Inbox] = FlowControl(limits or FlowLimits(), self._set_reading)
        self._link: Link | None = None
        self._link_number = 0
        self._latest_loss: ConnectionLost | None = None
        self._fault: Exception | None = None
        self._is_ready = False
        self._is_reviving = False
        self._is_closing = False
        self._loss: ConnectionLost | None = None
        self._closed = asyncio.Event()

    # --- links --------------------------------------------------------------

    def attach(self, link: Link) -> Receiver:
        """Take over a link; pass this method to a transport as `Accept`. `greet` and `open` must follow."""
        self._link = link
        self._link_number += 1
        self._fault = None
        self.peer = link.peer
        if not self._flow_control.is_reading:
            link.pause_reading()
        return _LinkEnd(self, link)

    async def greet(self, params: InitializeParams) -> InitializeResult:
        """Request a session over the new link. Raises the server's error, or ConnectionLost."""
        if self._link is None:
            raise self._final_loss()
        answer = self._requests.add(INITIALIZE, params)
        self._send(answer)
        greeting = await self.slow_result(answer, InitializeResult, self._flow_control.impatience())
        self._can_page = greeting.environment_info.capabilities.get("outputGaps", False)
        return greeting

    def open(self) -> None:
        """Complete the handshake: send waiting requests and read missed output. Raises ConnectionLost."""
        if self._link is None:
            raise self._final_loss()
        self._link.send(self._requests.initialized())
        self._is_ready = True
        self._is_reviving = False
        # Reads come first, before anything that a busy server might delay: it does not retain output for
        # long.
        for inbox in list(self._inboxes.values()):
            self._follow(inbox)
        for answer in list(self._requests.unsent):
            self._send(answer)

    def drop_link(self) -> None:
        """Drop a link whose handshake failed."""
        if self._link is not None:
            link, self._link = self._link, None
            link.abort()
            self._requests.link_lost(ConnectionLost(f"the handshake with {self.peer} was given up"))

    def lose_session(self, reason: str) -> None:
        """End a session that the server no longer has, and its processes; a new session takes its place."""
        loss = ConnectionLost(reason)
        lost = [inbox for inbox in self._inboxes.values() if inbox.is_started]
        for inbox in lost:
            self._close_inbox(inbox)
            inbox.fail(ProcessLost(inbox.process_id, reason))
        self.answering.lose_session()
        self._requests.session_lost({inbox.process_id for inbox in lost}, loss)

    def give_up(self, loss: ConnectionLost) -> None:
        """Fail everything: there will be no other link."""
        self.drop_link()
        self._end(loss)

    @property
    def is_open(self) -> bool:
        """Return whether the connection takes requests; they may have to wait for a new link."""
        return not (self._is_closing or self._closed.is_set())

    @property
    def is_connected(self) -> bool:
        """Return whether requests go out at once."""
        return self._is_ready

    def has_link(self, number: int) -> bool:
        """Return whether requests go out at once, and on this link; see `Answer.link_number`."""
        return self._is_ready and number == self._link_number

    # --- requests -----------------------------------------------------------

    async def request(self, method: str, params: Params | None, kind: type[R]) -> R:
        """Send a request and wait for its answer.

        Raises the server's error, ConnectionLost, ProcessLost or RequestTimeout. Cancelling the call gives up
        only on the answer: the request may still take effect.
        """
        return await self.result(self.submit(method, params), kind)

    def submit(
        self,
        method: str,
        params: Params | None,
        *,
        can_repeat: bool | None = None,
        link_number: int | None = None,
    ) -> Answer:
        """Send a request, after all earlier ones, as soon as there is a link.

        Pass the answer to `result` or `forget` it. If you do neither, the client sends the request until it
        is answered. `can_repeat` is for callers who know better than `request.is_repeatable`. With
        `link_number` the client sends it on that link (see `Answer.link_number`) or not at all: it names
        something, such as a file handle, that the server knows on no other link. Raises MessageTooLarge,
        UnicodeEncodeError for text that JSON can't carry, and ConnectionLost; in each case nothing was sent.
        """
        if not self.is_open:
            raise self._final_loss()
        if link_number is not None and not self.has_link(link_number):
            raise ConnectionLost(str(self._latest_loss)) from self._latest_loss
        answer = self._requests.add(method, params, can_repeat=can_repeat)
        if self._is_ready:
            self._send(answer)
        return answer

    def forget(self, answer: Answer) -> None:
        """Forget an answer that is no longer wanted. Do nothing if it has already arrived."""
        self._requests.forget(answer)

    async def result(self, answer: Answer, kind: type[R]) -> R:
        """Wait for an answer within the connection's request timeout, which includes any reconnection."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                return await self.slow_result(answer, kind, self._flow_control.impatience())
        except TimeoutError as error:
            raise RequestTimeout(f"{self.peer} did not answer within {self._request_timeout_s} s") from error

    async def slow_result(self, answer: Answer, kind: type[R], urgency: AbstractContextManager[None]) -> R:
        """Wait for an answer that may take as long as the process likes; see `Inbox.waiting`."""
        try:
            outcome = await answer.wait(urgency)
        finally:
            self.forget(answer)
        if isinstance(outcome, PaddockError):
            # Many requests may have the same reason to fail.
            raise outcome.with_traceback(None)
        assert isinstance(outcome, kind)
        return outcome

    # --- processes ----------------------------------------------------------

    def open_inbox(self, process_id: str, *, after_seq: int = 0, is_kept_alive: bool = False) -> Inbox:
        """Keep the events of a process, from before it is started. Raises ProcessExists.

        `started` must follow once the server has the process, otherwise `drop_inbox`.
        """
        if process_id in self._inboxes:
            raise ProcessExists(process_id)
        inbox = Inbox(process_id, self._flow_control, after_seq=after_seq, is_kept_alive=is_kept_alive)
        self._inboxes[process_id] = inbox
        return inbox

    def started(self, inbox: Inbox) -> None:
        """Note that the server has the process: from now on the client asks for the events it has missed."""
        inbox.is_started = True
        self._follow(inbox)

    async def caught_up(self, inbox: Inbox) -> None:
        """Wait until all missed events have arrived. Raises ProcessLost or RequestTimeout."""
        try:
            async with asyncio.timeout(self._request_timeout_s):
                await inbox.caught_up()
        except TimeoutError as error:
            raise RequestTimeout(f"{self.peer} did not answer within {self._request_timeout_s} s") from error

    def find_inbox(self, process_id: str) -> Inbox | None:
        """Return the inbox of a process that has not closed."""
        return self._inboxes.get(process_id)

    def drop_inbox(self, inbox: Inbox) -> None:
        """Ignore the process from now on."""
        inbox.discard()
        self._close_inbox(inbox)

    @property
    def inboxes(self) -> list[Inbox]:
        """Return the inboxes of the processes that have not closed."""
        return list(self._inboxes.values())

    # --- the end ------------------------------------------------------------

    async def aclose(self) -> None:
        """Send what is queued, close the link and wait for its end. The transport bounds the wait."""
        self._is_closing = True
        if self._link is not None:
            self._link.close()
        else:
            self._end(self._explain(None))
        await self._closed.wait()
        await self.answering.aclose()

    def abort(self) -> None:
        """Drop the link now."""
        self._is_closing = True
        if self._link is not None:
            self._link.abort()
        else:
            self._end(self._explain(None))

    # --- for the link -------------------------------------------------------

    def receive(self, message: Received) -> None:
        """Take one message from the server."""
        try:
            told = self._requests.receive(bytes(message))
        except ProtocolError as error:
            log.warning("dropping %s: %s", self.peer, error)
            self._fault = error
            assert self._link is not None
            self._link.abort()
            return
        match told:
            case Told():
                self._told(told.params)
            case Asked():
                self.answering.asked(told)
            case Unanswerable():
                log.warning("%s asks something that can't be understood: %s", self.peer, told.problem)
                self._reply(told.reply)

    def link_closed(self, link: Link, error: Exception | None) -> None:
        """Note that a link has ended. Ignore a link that was already dropped."""
        if link is not self._link:
            return
        fault = self._fault or error
        loss = self._latest_loss = self._explain(fault)
        was_ready, self._is_ready, self._link = self._is_ready, False, None
        # A server that breaks the protocol would do so again.
        is_curable = not self._is_closing and (fault is None or isinstance(fault, ConnectionLost))
        if is_curable and was_ready:
            self._is_reviving = self.revive(loss)
        if not is_curable or not self._is_reviving:
            self._end(loss)
            return
        for inbox in self._inboxes.values():
            inbox.cut()
        self._requests.link_lost(loss)
        self.watchers.lose()
        self.answering.cut()

    # --- inside -------------------------------------------------------------

    def _send(self, answer: Answer) -> None:
        assert self._link is not None
        answer.is_sent = True
        answer.attempts += 1
        answer.link_number = self._link_number
        self._link.send(answer.message)

    def _reply(self, message: bytes) -> None:
        if self._link is not None:
            self._link.send(message)

    def _told(self, params: Result) -> None:
        if isinstance(params, OutputEvent | ExitedEvent | ClosedEvent):
            inbox = self._inboxes.get(params.process_id)
            if inbox is not None:
                inbox.receive(params)
                self._follow(inbox)
        elif isinstance(params, QuestionClosedEvent):
            self.answering.closed(params.question_id)
        elif isinstance(params, FailedEvent):
            inbox = self._inboxes.get(params.process_id)
            if inbox is not None:
                inbox.fail(ProcessLost(inbox.process_id, params.message))
                self._follow(inbox)
        else:
            from paddock.protocol.watch import ChangedEvent

            if isinstance(params, ChangedEvent):
                self.watchers.told(params)

    def _follow(self, inbox: Inbox) -> None:
        """Close the inbox, read missed events or make room, as the state of the process requires."""
        if inbox.is_closed or inbox.failure is not None:
            self._close_inbox(inbox)
        elif inbox.needs_read and inbox.is_started:
            self._catch_up(inbox)
        if self._flow_control.must_drop:
            self._make_room()

    def _catch_up(self, inbox: Inbox) -> None:
        if not self._is_ready or inbox in self._catching_up:
            return
        is_page = inbox in self._paged and self._can_page
        params = ReadParams(
            process_id=inbox.process_id, after_seq=inbox.last_seq, max_bytes=PAGE_BYTES if is_page else None
        )
        # Not repeated: the next link needs a question of its own.
        answer = self._requests.add("process/read", params, can_repeat=False)
        answer.settled = partial(self._caught_up, inbox, is_page)
        self._catching_up.add(inbox)
        self._send(answer)

    def _caught_up(self, inbox: Inbox, is_page: bool, outcome: Outcome) -> None:
        self._catching_up.discard(inbox)
        if self._inboxes.get(inbox.process_id) is not inbox:
            return
        match outcome:
            case ReadResult():
                inbox.merge(outcome, is_page=is_page)
                if not inbox.needs_read:
                    self._paged.discard(inbox)
                self._follow(inbox)
            case RequestError():
                lost = ProcessLost(inbox.process_id, str(outcome))
                lost.__cause__ = outcome
                inbox.fail(lost)
                self._follow(inbox)
            case _:
                # The link was lost before the answer came: a smaller answer may get through the next one.
                self._paged.add(inbox)

    def _close_inbox(self, inbox: Inbox) -> None:
        self._paged.discard(inbox)
        if self._inboxes.get(inbox.process_id) is inbox:
            del self._inboxes[inbox.process_id]

    def _make_room(self) -> None:
        largest = max(
            self._flow_control.holders,
            key=lambda inbox: (not inbox.is_read, self._flow_control.unread_of(inbox)),
        )
        largest.overrun()

    def _set_reading(self, wanted: bool) -> None:
        if self._link is None or not self.is_open:
            return
        if wanted:
            self._link.resume_reading()
        else:
            self._link.pause_reading()

    def _end(self, loss: ConnectionLost) -> None:
        if self._closed.is_set():
            return
        self._loss = loss
        self._closed.set()
        self._requests.fail_all(loss)
        self.watchers.lose()
        self.answering.lose_session()
        for inbox in self._inboxes.values():
            lost = ProcessLost(inbox.process_id, str(loss))
            lost.__cause__ = loss
            inbox.fail(lost)
        self._inboxes.clear()
        self._paged.clear()

    def _final_loss(self) -> ConnectionLost:
        return ConnectionLost(str(self._loss or self._explain(self._fault)))

    def _explain(self, fault: Exception | None) -> ConnectionLost:
        if self._is_closing and fault is None:
            return ConnectionLost(f"the connection to {self.peer} was closed on this side")
        if fault is None:
            return ConnectionLost(f"{self.peer} ended the connection")
        # Transports name the peer in their errors.
        is_told = isinstance(fault, TransportError)
        loss = ConnectionLost(str(fault) if is_told else f"dropped {self.peer}: {fault}")
        loss.__cause__ = fault
        return loss


class _LinkEnd:
    """The receiver of one link. The link may end after another has replaced it."""

    def __init__(self, connection: Connection, link: Link) -> None:
        self._connection = connection
        self._link = link
        self.message_received = connection.receive

    def writing_paused(self) -> None:
        """Do nothing: only writes are large, and each process has a bounded window of them."""

    def writing_resumed(self) -> None:
        """See `writing_paused`."""

    def link_closed(self, error: Exception | None) -> None:
        self._connection.link_closed(self._link, error)

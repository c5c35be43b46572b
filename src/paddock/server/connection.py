"""One client: the link, the protocol state, the requests under way, and the session it is attached to.

This is where the pieces meet; it holds no policy of its own. Reading stops while
too many requests wait or too much output is unsent, so a client that does not
read its answers costs bounded memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from paddock.errors import ForeignSession, OperationFailed, RequestError
from paddock.fs.operations import Operations
from paddock.protocol.call import Call
from paddock.protocol.codec import CodecLimits
from paddock.protocol.codes import code_of
from paddock.protocol.envelope import write_error, write_notification, write_result
from paddock.protocol.process import SessionId
from paddock.protocol.session import ClientCapabilities
from paddock.protocol.structure import Params, Result
from paddock.rpc.serving import Drop, Ready, Refusal, Reply, ServingConnection
from paddock.server.answer_memory import AnswerMemory
from paddock.server.answer_turns import AnswerTurns
from paddock.server.connection_record import ConnectionRecord
from paddock.server.dispatch import Dispatcher, Encoded, Then
from paddock.server.files import ClientFiles
from paddock.server.memory_budget import Grant
from paddock.server.services import Services
from paddock.server.session import Session
from paddock.server.session_process import SessionProcess
from paddock.transport.link import Link, Received

if TYPE_CHECKING:
    from paddock.server.confined_operations import ConfinedOperations
    from paddock.server.downloads import Downloads
    from paddock.server.watches import ClientWatches

T = TypeVar("T")

UNREAD_ANSWERS_FACTOR = 8
"""Output stops at one send buffer; only answers fill further ones. At this many it is not read."""

LONG_MESSAGE_BYTES = 512
"""Shorter messages need no count: as many as one turn of the loop takes from a peer have 128 KiB."""

TEXT_BYTES_PER_TURN = 64 * 1024
"""Text of longer messages that a connection reads in one turn, bulk data not counted. The worst, entries of a
profile, takes 0.2 ms for a KiB. One message may be longer, and is the last in its turn."""

WAITING_TEXT_BYTES = 2 * 1024 * 1024
"""Text of requests that wait for their turn, at which the connection is not read. It becomes many objects,
and while the garbage collector looks at all that there are, nobody is served."""

LONG_ANSWER_BYTES = 64 * 1024
"""Most answers take microseconds to make; a longer one takes a tenth of a millisecond or more. After it the
connection takes up no other request in the same turn of the loop."""

TIMED_ONE_IN = 64
"""Of the requests that are answered at once, which are many and alike, the server times about one in this
many, which stands for the others: reading the clock twice for each would cost more than some of them do."""

_UNUSUAL_RESULTS = frozenset((Then, Encoded))

HandlerTable = Mapping[str, Callable[["ClientConnection", Call[Any]], Any]]


class ClientConnection:
    """A Receiver for one link. `aclose` follows `link_closed` and ends what is unfinished.

    An operator comes over the control socket. A connection that `has_operator_rights`, as a client's may too,
    reaches every session. `number` names the connection in logs.
    """

    # CPython 3.11 keeps at most 29 attributes without a table for each object, in which finding them takes
    # longer. Every message looks up dozens. `__dict__` is for the cached properties.
    __slots__ = (
        "__dict__",
        "_arrived_at_s",
        "_dispatcher",
        "_has_operator_rights",
        "_is_congested",
        "_is_greeted",
        "_is_next_timed",
        "_is_open",
        "_is_reading",
        "_latency",
        "_link",
        "_memory",
        "_on_closed",
        "_protocol",
        "_record",
        "_slow_streams",
        "_turn_bytes",
        "_wanted_notifications",
        "answer_turns",
        "answered_methods",
        "capabilities",
        "confined",
        "files",
        "is_operator",
        "local_operations",
        "number",
        "services",
        "session",
        "unanswered_starts",
    )

    def __init__(
        self,
        link: Link,
        services: Services,
        on_closed: Callable[[ClientConnection], None],
        number: int,
        *,
        is_operator: bool = False,
        has_operator_rights: bool = False,
    ) -> None:
        self.services = services
        self.number = number
        self.is_operator = is_operator
        self._has_operator_rights = has_operator_rights
        self.capabilities = ClientCapabilities()
        self.answered_methods: frozenset[str] = frozenset()
        """The requests that the client said it answers."""
        self._wanted_notifications: frozenset[str] = frozenset()
        self.unanswered_starts: set[SessionProcess] = set()
        """Processes whose events wait for the answer to their start."""
        self.local_operations: Operations | None = None
        """The object that carries out the client's unconfined file operations, once it has asked for one.

        None until then, and not a cached property: every request about a file reads it."""
        self.confined: set[ConfinedOperations] = set()
        """The operations under a profile that have files open."""
        self.files = ClientFiles()
        self.answer_turns = AnswerTurns(lambda: self._is_congested, services.shared_answers)
        """Decides when parked requests are answered."""
        self._link = link
        self._on_closed = on_closed
        settings = services.settings
        limits = CodecLimits(max_values=settings.max_json_values, max_depth=settings.max_json_depth)
        self._protocol = ServingConnection(link.peer, limits, is_operator=has_operator_rights)
        self._dispatcher = Dispatcher(
            settings.concurrent_requests,
            settings.max_parked_requests,
            self._carry_out,
            self._finish,
            self._read_if_there_is_room,
            services.request_turns,
            services.lanes.step_scheduler,
        )
        self.session: Session
        """The session; every method but `initialize` has one."""
        self._is_greeted = False
        self._memory = AnswerMemory(services.large_answers)
        self._is_congested = False
        self._slow_streams: list[asyncio.Future[None]] = []
        self._is_reading = True
        self._turn_bytes = 0
        """Text of long messages that came in this turn."""
        self._is_open = True
        self._latency = services.metrics.requests
        self._is_next_timed = True
        self._arrived_at_s = 0.0
        self._record = ConnectionRecord(
            link, number, services.metrics, lambda: self._dispatcher.waiting, is_operator=is_operator
        )

    # --- what handlers use --------------------------------------------------

    @property
    def peer(self) -> str:
        """Return a description of the peer, for people."""
        return self._link.peer

    def session_of(self, session_id: SessionId) -> Session:
        """Return the session that a request is about.

        Raises ForeignSession or, with an operator's rights, UnknownSession.
        """
        if session_id is UNSET or session_id is None or session_id == self.session.id:
            return self.session
        if not self._has_operator_rights:
            raise ForeignSession(session_id)
        return self.services.sessions.visit(session_id)

    @property
    def has_extensions(self) -> bool:
        """Return whether the client wants more than the reference protocol's shapes."""
        return self.capabilities.extensions

    async def room_for(self, size_bytes: int) -> Grant:
        """Reserve memory for an answer: see `AnswerMemory.take`. An `Encoded` must give it back."""
        return await self._memory.take(size_bytes)

    async def compute(self, work: Callable[[], T]) -> T:
        """Run a function that needs the processor for long, in a thread. One at a time for this connection:
        several would keep the loop from the interpreter."""
        async with self._computing:
            return await self.services.lanes.run(work)

    @cached_property
    def _computing(self) -> asyncio.Lock:
        return asyncio.Lock()

    # Services that few clients use are imported and made on first use (`preload`).

    def make_local_operations(self) -> Operations:
        """Make `local_operations`, if nobody has yet, and return it."""
        if self.local_operations is None:
            from paddock.fs.local import LocalOperations

            self.local_operations = LocalOperations(self.services.lanes)
        return self.local_operations

    @cached_property
    def downloads(self) -> Downloads:
        """Return the HTTP exchanges that this client asked for."""
        from paddock.server.downloads import Downloads

        return Downloads(self)

    @cached_property
    def watches(self) -> ClientWatches:
        """Return the watches of this client."""
        from paddock.server.watches import ClientWatches

        return ClientWatches(self, self.services.lanes)

    async def caught_up(self) -> None:
        """Wait until no more than a send buffer is unsent. A stream waits here after each piece."""
        while self._is_congested:
            waiter = asyncio.get_running_loop().create_future()
            self._slow_streams.append(waiter)
            await waiter

    def greet(self, session: Session, capabilities: ClientCapabilities) -> None:
        """Attach to the session and remember what the client understands: `initialize` has succeeded."""
        self.session = session
        self._is_greeted = True
        self._record.greeted(session.id)
        self.capabilities = capabilities
        if capabilities.extensions:
            self._wanted_notifications = frozenset(capabilities.notifications)
            self.answered_methods = frozenset(capabilities.requests)
        self._protocol.greeted(session.questions.table)

    # --- Outbox -------------------------------------------------------------

    @property
    def is_congested(self) -> bool:
        """Return whether more than a send buffer is unsent."""
        return self._is_congested

    def notify(self, method: str, params: Result, *, is_optional: bool = False) -> None:
        """Send a notification."""
        if not is_optional or method in self._wanted_notifications:
            self._link.send(write_notification(method, params))

    def send_question(self, message: bytes) -> None:
        """Send a request to the client."""
        self._link.send(message)

    def give_way(self) -> None:
        """End the connection, soon, if its client does not answer pings."""
        if self._link.is_silent:
            self._record.dropped("silent, and another connection asks for its session")
            self._link.abort()

    # --- Receiver -----------------------------------------------------------

    def message_received(self, message: Received) -> None:
        """Take one message from the client."""
        if self._is_next_timed:
            self._receive_timed(message)
            return
        event = self._protocol.receive(message)
        # Nearly every message is a call, and checking the type costs less than a pattern below.
        if type(event) is Call:
            if event.size_bytes > LONG_MESSAGE_BYTES:
                self._count_text(event.text_bytes)
            if not self._dispatcher.submit(event):
                self._read_if_there_is_room()
            return
        self._count_text(len(message))
        match event:
            case Refusal() as refusal:
                self._link.send(refusal.reply)
                self._record.refused(refusal.id, refusal.method, refusal.code, refusal.problem)
                if self._is_congested:
                    self._read_if_there_is_room()
            case Ready():
                self.session.questions.connect(self)
            case Reply():
                self.session.questions.receive(event)
            case Drop(reason):
                self._record.dropped(reason)
                self._link.abort()

    def _count_text(self, size_bytes: int) -> None:
        """Read no more in this turn of the loop if the messages that came in it were long."""
        if not self._turn_bytes:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._turn_bytes += size_bytes
        if self._turn_bytes > TEXT_BYTES_PER_TURN:
            self._read_if_there_is_room()

    def _begin_turn(self) -> None:
        self._turn_bytes = 0
        self._read_if_there_is_room()

    def writing_paused(self) -> None:
        """Pause the client's processes, because it reads too slowly."""
        self._is_congested = True
        self.services.metrics.pauses += 1
        self._record.output_stall.begin()
        if self._is_greeted:
            self.session.pause_output()

    def writing_resumed(self) -> None:
        """Resume the client's processes, because it has caught up."""
        self._is_congested = False
        self._record.output_stall.end()
        self._memory.release_sent()
        if self._is_greeted:
            self.session.resume_output()
            self.session.questions.issue()
        waiting, self._slow_streams = self._slow_streams, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
        self.answer_turns.resume()
        # Last: what begins now may fill the link again, which pauses everything that was resumed above.
        self._dispatcher.release()
        self._read_if_there_is_room()

    def link_closed(self, error: Exception | None) -> None:
        """Note that the connection is lost; the session lives on without it."""
        self._is_open = False
        # This comes before another connection can take over the session, which must find what this one has
        # begun.
        self._dispatcher.stop()
        self._memory.release_sent()
        self._record.closed(error)
        if self._is_greeted:
            self.session.detach()
        self._on_closed(self)

    def close(self) -> None:
        """Send what is queued, then end the connection; `link_closed` follows, within the close timeout."""
        self._link.close()

    async def aclose(self) -> None:
        """Cancel the requests that nobody waits for any more."""
        self._link.abort()
        await self._dispatcher.aclose()
        if self.local_operations is not None:
            await self.local_operations.aclose()
        for confined in list(self.confined):
            await confined.aclose()
        self.services.enclosures.give_up_placeholders()
        if "downloads" in self.__dict__:
            await self.downloads.aclose()
        if "watches" in self.__dict__:
            await self.watches.aclose()
        for entry in self.unanswered_starts:
            entry.begin_unanswered()
        self.unanswered_starts.clear()

    # --- requests -----------------------------------------------------------

    def _carry_out(self, call: Call[Params]) -> Any:
        return self.services.handlers[call.method.name](self, call)

    def _finish(self, call: Call[Params], result: Any, error: Exception | None, since_s: float) -> None:
        then = None
        if error is None and type(result) not in _UNUSUAL_RESULTS:
            # What `_send_answer` does, without its call: nearly every answer comes this way.
            message = write_result(call.id, result)
            self._link.send(message)
            if len(message) > LONG_ANSWER_BYTES:
                self._dispatcher.rest()
        elif error is not None:
            self._fail(call, error)
        else:
            then = self._answer_unusually(call, result)
        if since_s or self._arrived_at_s:
            self._observe(call, since_s)
        else:
            latency = self._latency[call.method.name]
            latency.untimed += 1
            if latency.untimed >= TIMED_ONE_IN:
                self._is_next_timed = True
        if then is not None:
            then()
        if self._is_congested:
            self._hold_if_behind()
            self._read_if_there_is_room()

    def _answer_unusually(self, call: Call[Params], result: Then | Encoded) -> Callable[[], None] | None:
        """Send the result, and return the action that must follow it."""
        if isinstance(result, Encoded):
            self._send_answer(result.message)
            if result.grant is not None:
                self._memory.settle(result.grant, is_sent=not (self._is_congested and self._is_open))
            return None
        if isinstance(result.outcome, RequestError):
            self._fail(call, result.outcome)
        else:
            self._send_answer(write_result(call.id, result.outcome))
        return result.action

    def _send_answer(self, message: bytes | bytearray) -> None:
        self._link.send(message)
        if len(message) > LONG_ANSWER_BYTES:
            self._dispatcher.rest()

    def _fail(self, call: Call[Params], error: Exception) -> None:
        if isinstance(error, RequestError):
            self._link.send(write_error(call.id, error, has_extensions=self.has_extensions))
            self._record.refused(call.id, call.method.name, code_of(error), str(error), call.subject)
            return
        self._record.crashed(call, error)
        problem = OperationFailed(f"{call.method.name} failed in the server; see its log")
        self._link.send(write_error(call.id, problem))

    def _has_too_many_unread_answers(self) -> bool:
        # This counts only while the link is congested: the end of the congestion starts the reading again.
        limit_bytes = UNREAD_ANSWERS_FACTOR * self.services.settings.send_buffer_bytes
        return self._is_congested and self._link.buffered_bytes >= limit_bytes

    def _hold_if_behind(self) -> None:
        if self._has_too_many_unread_answers():
            self._dispatcher.hold()

    def _read_if_there_is_room(self) -> None:
        settings = self.services.settings
        has_room = (
            self._dispatcher.waiting < settings.queued_requests
            and self._dispatcher.waiting_bytes < settings.max_message_bytes
            and self._dispatcher.waiting_text_bytes < WAITING_TEXT_BYTES
            and self._turn_bytes <= TEXT_BYTES_PER_TURN
            and not self._has_too_many_unread_answers()
        )
        if has_room == self._is_reading or not self._is_open:
            return
        self._is_reading = has_room
        if has_room:
            self._record.reading_stall.end()
            self._link.resume_reading()
        else:
            self._record.reading_stall.begin()
            self._link.pause_reading()

    # --- latency ------------------------------------------------------------

    def _receive_timed(self, message: Received) -> None:
        self._is_next_timed = False
        self._arrived_at_s = perf_counter()
        self.message_received(message)
        self._arrived_at_s = 0.0
        # Someone who looks for a fault wants to see every request.
        self._is_next_timed = self._record.is_debugging

    def _observe(self, call: Call[Params], since_s: float) -> None:
        latency = self._latency[call.method.name]
        if since_s:
            duration_s = perf_counter() - since_s
            latency.observe(duration_s)
        else:
            duration_s = perf_counter() - self._arrived_at_s
            latency.observe_for_untimed(duration_s)
        self._record.answered(call, duration_s)

"""Requests under way: those sent, those still to send, and those that may be sent twice.

A request keeps its bytes until it is answered, so that the client can repeat it under the same id when its
link is lost. Nothing here knows the link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from paddock.client.pending import Pending
from paddock.errors import ConnectionLost, MessageTooLarge, PaddockError, ProcessLost
from paddock.protocol.envelope import RequestId
from paddock.protocol.process import StartParams, WriteParams
from paddock.protocol.structure import Params, Result
from paddock.rpc.calling import Answered, Asked, CallingConnection, Failed, Told, Unanswerable

MAX_REQUEST_BYTES: Final = 16 << 20
"""The largest frame that servers accept; a larger one would cost the whole connection."""

REPEATABLE: Final = frozenset(
    {
        "environment/info",
        "environment/status",
        "process/closeStdin",
        "process/list",
        "process/read",
        "process/resize",
        "process/snapshot",
        "process/terminate",
        "process/wait",
    }
)
"""Methods that may be carried out twice without harm. A signal is not one of them: many programs treat a
second interrupt as more than the first."""


def is_repeatable(method: str, params: Params | None) -> bool:
    """Return whether the client may send a request again without knowing whether the first took effect."""
    match params:
        case StartParams():
            return params.idempotency_key is not None
        case WriteParams():
            return params.write_id is not None
        case _:
            return method in REPEATABLE


Outcome = Result | PaddockError
"""The outcome of a request."""


class Answer(Pending[Outcome]):
    """The answer to a request, or the reason why none will arrive."""

    __slots__ = (
        "attempts",
        "is_repeatable",
        "is_sent",
        "link_number",
        "message",
        "method",
        "request_id",
        "settled",
        "subject",
    )

    def __init__(
        self, request_id: RequestId, method: str, message: bytes, subject: str | None, *, is_repeatable: bool
    ) -> None:
        super().__init__()
        self.request_id = request_id
        self.method = method
        self.message = message
        self.subject = subject
        """The process that the request is about, if it is about one."""
        self.settled: Callable[[Outcome], None] | None = None
        """Called with the outcome at once, if no task waits for it."""
        self.is_repeatable = is_repeatable
        self.is_sent = False
        """Whether it was sent on the current link."""
        self.attempts = 0
        """The number of links it was sent on. If more than one, the first attempt may have taken effect."""
        self.link_number = 0
        """The link it was sent on last; anything that the answer opens belongs to that link."""


class Requests:
    """All unanswered requests of a connection, in the order in which they were made."""

    def __init__(self) -> None:
        self._rpc = CallingConnection()
        self._answers: dict[RequestId, Answer] = {}

    def add(self, method: str, params: Params | None, *, can_repeat: bool | None = None) -> Answer:
        """Make a request; `can_repeat` is for callers who know better than `is_repeatable`.

        Raises MessageTooLarge, and UnicodeEncodeError for text that JSON can't carry.
        """
        request_id, message = self._rpc.request(method, params)
        if len(message) > MAX_REQUEST_BYTES:
            self._rpc.forget(request_id)
            raise MessageTooLarge(MAX_REQUEST_BYTES)
        subject = getattr(params, "process_id", None)
        if can_repeat is None:
            can_repeat = is_repeatable(method, params)
        answer = Answer(request_id, method, message, subject, is_repeatable=can_repeat)
        self._answers[request_id] = answer
        return answer

    def initialized(self) -> bytes:
        """Return the bytes of the notification that completes the handshake."""
        return self._rpc.initialized()

    def forget(self, answer: Answer) -> None:
        """Forget an answer that is no longer wanted. If its request has not been sent, it never will be."""
        self._answers.pop(answer.request_id, None)
        self._rpc.forget(answer.request_id)

    def receive(self, message: bytes) -> Told | Asked | Unanswerable | None:
        """Settle the request that a message answers, or return its notification or request. Raises
        ProtocolError."""
        event = self._rpc.receive(message)
        match event:
            case Told() | Asked() | Unanswerable():
                return event
            case Answered():
                self._settle(event.id, event.result)
            case Failed():
                self._settle(event.id, event.error)
            case None:
                pass
        return None

    # --- when the link is lost ----------------------------------------------

    @property
    def unsent(self) -> Iterator[Answer]:
        """Yield the requests that must go out on the current link, in order."""
        return (answer for answer in self._answers.values() if not answer.is_sent)

    def link_lost(self, loss: ConnectionLost) -> None:
        """Fail requests that were sent and can't be sent again; mark the rest as unsent."""
        for answer in list(self._answers.values()):
            if answer.is_sent and not answer.is_repeatable:
                doubt = ConnectionLost(f"{loss}; whether {answer.method} took effect is not known")
                doubt.__cause__ = loss
                self._settle(answer.request_id, doubt)
            answer.is_sent = False

    def session_lost(self, processes: Collection[str], loss: ConnectionLost) -> None:
        """Fail requests for these processes, and requests that may have taken effect in the lost session."""
        for answer in list(self._answers.values()):
            if answer.subject in processes:
                self._settle(answer.request_id, ProcessLost(answer.subject or "", str(loss)))
            elif answer.attempts and not answer.is_sent:
                self._settle(answer.request_id, loss)

    def fail_all(self, loss: ConnectionLost) -> None:
        """Fail every request: no more answers will arrive."""
        for request_id in list(self._answers):
            self._settle(request_id, loss)

    def _settle(self, request_id: RequestId, outcome: Outcome) -> None:
        answer = self._answers.pop(request_id, None)
        if answer is not None:
            self._rpc.forget(request_id)
            (answer.settled or answer.resolve)(outcome)

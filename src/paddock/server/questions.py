"""The questions of one session: sends them, takes the answers, and wakes the tasks that wait for them.

`ask` is how the rest of the server asks. The question goes to the client of the session, on
the present connection and on each one after it, and stands open for operators. The first
answer counts. It knows no method: what may be asked is in `protocol.methods`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container, Iterator
from math import isinf
from typing import Literal, Protocol
from uuid import uuid4

from msgspec import Struct

from paddock.errors import (
    AnswerFailed,
    InvalidParams,
    QuestionError,
    QuestionTimedOut,
    QuestionWithdrawn,
    UnknownQuestion,
)
from paddock.protocol.codec import convert_answer
from paddock.protocol.methods import SERVER_REQUESTS
from paddock.protocol.question import QuestionClosedEvent, QuestionParams
from paddock.protocol.structure import Params, Result
from paddock.rpc.questions import OpenQuestions, Question, QuestionLimits
from paddock.rpc.serving import Reply
from paddock.server.metrics import QuestionOutcome
from paddock.server.record import SessionRecord

Answerer = Literal[QuestionOutcome.CLIENT, QuestionOutcome.OPERATOR]


class Answer(Struct, frozen=True):
    """The answer to a question, of the type that its method has, and who gave it."""

    result: Params
    by: Answerer


class Asked(Protocol):
    """A connection that questions go out on."""

    @property
    def is_congested(self) -> bool:
        """Return whether the client reads too slowly to be asked more."""

    @property
    def answered_methods(self) -> Container[str]:
        """Return the requests that the client said it answers."""

    def send_question(self, message: bytes) -> None:
        """Send a request."""

    def notify(self, method: str, params: Result, *, is_optional: bool = False) -> None:
        """Send a notification; an optional one only if the client asked for it."""


def new_question_id() -> str:
    """Return an id for a question that is to be asked."""
    return str(uuid4())


class SessionQuestions:
    """The open questions of a session, and the tasks that wait for their answers."""

    def __init__(self, max_open: int, record: SessionRecord) -> None:
        self.table = OpenQuestions(QuestionLimits(max_open))
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._waiters: dict[str, asyncio.Future[Answer]] = {}
        self._client: Asked | None = None
        # Closed questions that a disconnected client knows of: it need not answer them when it is back.
        self._unheard: deque[QuestionClosedEvent] = deque(maxlen=max_open)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0
        self._end_reason: str | None = None

    # --- asking -------------------------------------------------------------

    async def ask(self, method: str, params: QuestionParams, timeout_s: float | None) -> Answer:
        """Ask, and wait for the first answer; without a timeout as long as the session lasts.

        `params` has a `new_question_id`. A caller that is cancelled withdraws the question, and so does the
        end of the process that `params` names. Raises QuestionError, whose subclasses distinguish why there
        is no answer, and UnicodeEncodeError for text that JSON can't carry.
        """
        if self._end_reason is not None:
            raise QuestionWithdrawn(self._end_reason)
        now_s = self._loop.time()
        question = self.table.ask(method, params, now_s=now_s, timeout_s=timeout_s)
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiters[question.id] = waiter
        self._record.asked(question, timeout_s)
        self._expire_at(question.due_at_s)
        self.issue()
        try:
            return await waiter
        except asyncio.CancelledError:
            self._withdraw(self.table.close(question.id), "whoever asked has given up")
            if waiter.done() and not waiter.cancelled():
                # An error that came at the same moment is nobody's, and would be reported as forgotten.
                waiter.exception()
            raise

    def __iter__(self) -> Iterator[Question]:
        return iter(self.table)

    # --- the client ---------------------------------------------------------

    def connect(self, client: Asked) -> None:
        """Send a client the open questions once its handshake is complete. Do nothing the second time."""
        if self._client is client:
            return
        self._client = client
        while self._unheard:
            client.notify("question/closed", self._unheard.popleft(), is_optional=True)
        self.issue()

    def disconnect(self) -> None:
        """Note that the connection is lost; the questions wait for the next."""
        self._client = None
        self.table.cut()

    def issue(self) -> None:
        """Send questions that the client has not got yet, as far as it keeps up. Call this again when it
        has caught up."""
        client = self._client
        if client is None:
            return
        requests = self.table.issue(client.answered_methods)
        while self._can_ask(client) and (message := next(requests, None)) is not None:
            client.send_question(message)

    def _can_ask(self, client: Asked) -> bool:
        return self._client is client and not client.is_congested

    def receive(self, reply: Reply) -> None:
        """Take the client's answer to a request. One that nobody waits for any more is ignored."""
        question = self.table.answered(reply.id)
        if question is None:
            return
        if reply.problem is not None:
            self._fail(question, AnswerFailed(f"the client could not answer: {reply.problem}"))
            return
        try:
            result = convert_answer(reply.result, SERVER_REQUESTS[question.method].result)
        except InvalidParams as error:
            self._fail(question, AnswerFailed(f"the client's answer is invalid: {error}"))
            return
        self._answer(question, Answer(result, QuestionOutcome.CLIENT))

    # --- operators ----------------------------------------------------------

    def answer(self, question_id: str, value: object) -> None:
        """Answer in place of the client.

        Raises UnknownQuestion, and InvalidParams for an invalid answer, which leaves the question open.
        """
        question = self.table.find(question_id)
        if question is None:
            raise UnknownQuestion(question_id)
        result = convert_answer(value, SERVER_REQUESTS[question.method].result)
        self.table.close(question_id)
        self._answer(question, Answer(result, QuestionOutcome.OPERATOR))
        self._tell(QuestionClosedEvent(question_id=question_id, outcome="answered"), question)

    # --- without an answer --------------------------------------------------

    def withdraw(self, process_id: str, reason: str) -> None:
        """Close the questions of a process that needs no answers any more."""
        for question in self.table.withdraw(process_id):
            self._withdraw(question, reason)

    def close(self, reason: str) -> None:
        """Close all questions; none can be asked from now on. Idempotent."""
        self._end_reason = self._end_reason or reason
        for question in self.table.withdraw():
            self._withdraw(question, reason)
        self._stop_timer()

    def _withdraw(self, question: Question | None, reason: str) -> None:
        if question is not None:
            self._fail(question, QuestionWithdrawn(reason))
            self._tell(QuestionClosedEvent(question_id=question.id, outcome="withdrawn"), question)

    # --- time ---------------------------------------------------------------

    def _expire_at(self, due_at_s: float) -> None:
        if isinf(due_at_s) or (self._timer is not None and self._timer_at_s <= due_at_s):
            return
        self._stop_timer()
        self._timer_at_s = due_at_s
        self._timer = self._loop.call_at(due_at_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        # The timer may be early by the clock's resolution.
        for question in self.table.expire(max(self._loop.time(), self._timer_at_s)):
            self._fail(question, QuestionTimedOut(question.due_at_s - question.asked_at_s))
            self._tell(QuestionClosedEvent(question_id=question.id, outcome="timedOut"), question)
        self._expire_at(self.table.next_due_s)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- telling ------------------------------------------------------------

    def _answer(self, question: Question, answer: Answer) -> None:
        self._record.answered(question, answer.by, self._waited_s(question))
        waiter = self._waiters.pop(question.id)
        if not waiter.done():
            waiter.set_result(answer)

    def _fail(self, question: Question, error: QuestionError) -> None:
        self._record.unanswered(question, error, self._waited_s(question))
        waiter = self._waiters.pop(question.id)
        if not waiter.done():
            waiter.set_exception(error)

    def _waited_s(self, question: Question) -> float:
        return self._loop.time() - question.asked_at_s

    def _tell(self, event: QuestionClosedEvent, question: Question) -> None:
        """Notify a client that has the question and did not close it itself."""
        if not question.was_sent:
            return
        if self._client is not None:
            self._client.notify("question/closed", event, is_optional=True)
        else:
            self._unheard.append(event)

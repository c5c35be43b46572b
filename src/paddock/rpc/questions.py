"""The server's questions that wait for an answer, without I/O.

`OpenQuestions` belongs to a session and outlives its links:

    ask             opens a question, under the id in its parameters
    issue           yields the requests that the present link has not carried, under fresh request ids
    cut             notes that the link is lost: every question has to be issued again
    answered        closes the question that a client's answer on the present link is for
    close           closes a question that somebody else answered
    expire          closes the questions whose time is over
    withdraw        closes the questions of a process, or all

A session never uses a request id twice. So an answer that comes late, or on another link,
fits no question and differs from an answer to a request that was never made.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from math import inf
from typing import Final

from msgspec import Raw, Struct

from paddock.errors import TooManyQuestions
from paddock.protocol.codec import write_json
from paddock.protocol.envelope import RequestId, write_request
from paddock.protocol.question import QuestionParams

KIB = 1024


class Question(Struct, eq=False):
    """A question that has been asked. Its parameters are encoded once."""

    id: str
    method: str
    params: Raw
    size_bytes: int
    process_id: str | None
    """The process that needs the answer, if any."""
    asked_at_s: float
    due_at_s: float
    """When it times out; `inf` for never."""
    request_id: int | None = None
    """Its id on the present link, if this link has carried it."""
    was_sent: bool = False
    """Whether any link has carried it."""


ASKED_BYTES_LIMIT: Final = 1024 * KIB
"""Size limit for the parameters of a session's open questions, in JSON: 1 KiB for each question that the
default settings allow."""


class QuestionLimits(Struct, frozen=True):
    """Limits on the open questions of one session."""

    max_open: int
    max_bytes: int = ASKED_BYTES_LIMIT


class OpenQuestions:
    """The open questions of one session, oldest first. The caller supplies the time."""

    def __init__(self, limits: QuestionLimits) -> None:
        self._limits = limits
        self._open: dict[str, Question] = {}
        self._unissued: dict[str, Question] = {}
        self._issued: dict[RequestId, Question] = {}
        self._last_request_id = 0
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Question]:
        return iter(self._open.values())

    @property
    def next_due_s(self) -> float:
        """Return when the next question times out; `inf` if none does."""
        return min((question.due_at_s for question in self), default=inf)

    def ask(self, method: str, params: QuestionParams, *, now_s: float, timeout_s: float | None) -> Question:
        """Add a question with a new id; `issue` sends it. One about a process ends with that process.

        Raises TooManyQuestions, and UnicodeEncodeError for text that JSON can't carry. Both leave the
        questions as they are.
        """
        question_id, limits = params.question_id, self._limits
        assert question_id not in self._open
        if len(self._open) >= limits.max_open:
            raise TooManyQuestions(f"{limits.max_open}")
        encoded = write_json(params)
        if self._size_bytes + len(encoded) > limits.max_bytes:
            raise TooManyQuestions(f"{limits.max_bytes} bytes")
        question = Question(
            id=question_id,
            method=method,
            params=Raw(encoded),
            size_bytes=len(encoded),
            process_id=getattr(params, "process_id", None),
            asked_at_s=now_s,
            due_at_s=inf if timeout_s is None else now_s + timeout_s,
        )
        self._size_bytes += len(encoded)
        self._open[question_id] = self._unissued[question_id] = question
        return question

    def issue(self, methods: Container[str]) -> Iterator[bytes]:
        """Yield the requests to send on the present link, oldest first.

        Yields only requests that its client answers. After stopping half-way, call this again for the rest.
        """
        for question in list(self._unissued.values()):
            if question.method not in methods:
                continue
            del self._unissued[question.id]
            self._last_request_id += 1
            question.request_id = self._last_request_id
            question.was_sent = True
            self._issued[question.request_id] = question
            yield write_request(question.request_id, question.method, question.params)

    def was_issued(self, request_id: RequestId) -> bool:
        """Return whether the session has ever sent a request with this id."""
        return type(request_id) is int and 0 < request_id <= self._last_request_id

    def cut(self) -> None:
        """Forget the request ids of a link that is lost."""
        for question in self._issued.values():
            question.request_id = None
        self._issued.clear()
        self._unissued = dict(self._open)

    def answered(self, request_id: RequestId) -> Question | None:
        """Close and return the question that this answer is for; None if it is closed already."""
        question = self._issued.get(request_id)
        return self._remove(question) if question is not None else None

    def close(self, question_id: str) -> Question | None:
        """Close and return a question by its own id; None if it is not open."""
        question = self._open.get(question_id)
        return self._remove(question) if question is not None else None

    def find(self, question_id: str) -> Question | None:
        """Return the open question of this id."""
        return self._open.get(question_id)

    def expire(self, now_s: float) -> list[Question]:
        """Close the questions whose time is over."""
        return [self._remove(question) for question in list(self) if question.due_at_s <= now_s]

    def withdraw(self, process_id: str | None = None) -> list[Question]:
        """Close the questions of a process; without one, all."""
        # Every exit calls this, usually with no open question.
        if not self._open:
            return []
        return [
            self._remove(question)
            for question in list(self)
            if process_id is None or question.process_id == process_id
        ]

    def _remove(self, question: Question) -> Question:
        del self._open[question.id]
        self._unissued.pop(question.id, None)
        if question.request_id is not None:
            del self._issued[question.request_id]
        self._size_bytes -= question.size_bytes
        return question

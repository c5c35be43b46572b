"""The questions that a client has been asked, without I/O.

The same question comes again on each link until the server has its answer. `ReceivedQuestions`
knows which are being answered and which have been, so that nobody is asked twice:

    asked       a question has come: answer it, or send what it was answered with before
    settled     an answer is there: under which request id it goes out, if there is one now
    closed      the server needs no answer any more
    cut         the link is lost: request ids are void, and answers wait for the next
    clear       the session is lost, and every question with it
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum
from typing import Generic, TypeVar

from paddock.protocol.envelope import RequestId

A = TypeVar("A")

MAX_QUESTIONS = 4096
"""Questions that are answered at once: four times what a server asks by default."""

REMEMBERED_ANSWERS = 1024
"""Answers kept, in case that a link was lost with them: as many as a server has open by default."""


class Arrival(Enum):
    """What is to be done about a question that has come."""

    ANSWER = "answer"
    """It is new: find an answer, and tell `settled`."""
    WAIT = "wait"
    """It is being answered already."""
    REFUSE = "refuse"
    """Too many are being answered; it is not remembered."""


class ReceivedQuestions(Generic[A]):
    """Questions by their ids, and what `A` the latest were answered with."""

    def __init__(self, max_questions: int = MAX_QUESTIONS) -> None:
        self._max_questions = max_questions
        self._unanswered: dict[str, RequestId | None] = {}
        self._answers: OrderedDict[str, A] = OrderedDict()

    def __len__(self) -> int:
        return len(self._unanswered)

    def __contains__(self, question_id: str) -> bool:
        return question_id in self._unanswered

    def answer_to(self, question_id: str) -> A | None:
        """Return what a question was answered with before."""
        return self._answers.get(question_id)

    def asked(self, question_id: str, request_id: RequestId) -> Arrival:
        """Take a question that `answer_to` has no answer for."""
        is_known = question_id in self._unanswered
        if not is_known and len(self._unanswered) >= self._max_questions:
            return Arrival.REFUSE
        self._unanswered[question_id] = request_id
        return Arrival.WAIT if is_known else Arrival.ANSWER

    def settled(self, question_id: str, answer: A) -> RequestId | None:
        """Remember an answer. Return the id to send it under; None if it waits for the next link."""
        if question_id not in self._unanswered:
            return None
        self._answers[question_id] = answer
        if len(self._answers) > REMEMBERED_ANSWERS:
            self._answers.popitem(last=False)
        return self._unanswered.pop(question_id)

    def closed(self, question_id: str) -> None:
        """Forget a question that needs no answer any more."""
        self._unanswered.pop(question_id, None)
        self._answers.pop(question_id, None)

    def cut(self) -> None:
        """Forget the request ids of a link that is lost."""
        self._unanswered = dict.fromkeys(self._unanswered)

    def clear(self) -> None:
        """Forget everything."""
        self._unanswered.clear()
        self._answers.clear()

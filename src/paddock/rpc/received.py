"""The questions that a client has been asked, without I/O.

The server repeats a question on each link until it has the answer. `ReceivedQuestions` knows which
questions wait for an answer and which have one, so that the client asks nobody twice:

    asked       a question has come: answer it, or send its earlier answer again
    settled     an answer exists: returns the request id to send it under, if there is one now
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
"""Most questions in work at once: four times what a server asks by default."""

REMEMBERED_ANSWERS = 1024
"""Answers kept in case a lost link took them along: as many as a server has open by default."""


class Arrival(Enum):
    """What to do about a question that has come."""

    ANSWER = "answer"
    """It is new: find an answer, and pass it to `settled`."""
    WAIT = "wait"
    """An answer is on its way already."""
    REFUSE = "refuse"
    """Too many questions are in work; forget this one."""


class ReceivedQuestions(Generic[A]):
    """Questions by their ids, and the latest answers, of type `A`."""

    def __init__(self, max_questions: int = MAX_QUESTIONS) -> None:
        self._max_questions = max_questions
        self._unanswered: dict[str, RequestId | None] = {}
        self._answers: OrderedDict[str, A] = OrderedDict()

    def __len__(self) -> int:
        return len(self._unanswered)

    def __contains__(self, question_id: str) -> bool:
        return question_id in self._unanswered

    def answer_to(self, question_id: str) -> A | None:
        """Return the earlier answer to a question; None if there is none."""
        return self._answers.get(question_id)

    def asked(self, question_id: str, request_id: RequestId) -> Arrival:
        """Accept a question that `answer_to` has no answer for."""
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

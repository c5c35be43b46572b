"""Answers that stand for more than one execution. Pure.

Executions of the same program with the same arguments in the same directory wait for one answer, and an
answer may be remembered for the rest of the process or session.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from msgspec.structs import replace

from paddock.intercept.execution import Subject
from paddock.intercept.verdict import Answer
from paddock.model.verdict import Remember

MAX_REMEMBERED: Final = 1024
"""How many answers to remember. The least recently used one gives way, and its question is asked again."""


class Approvals:
    """The answers of one process. `session` holds those that outlive it."""

    def __init__(self, session: RememberedAnswers) -> None:
        self._session = session
        self._process = RememberedAnswers()
        self._waiting: dict[Subject, list[str]] = {}

    def known(self, subject: Subject) -> Answer | None:
        """Return the answer remembered for an execution."""
        return self._process.find(subject) or self._session.find(subject)

    def wait(self, subject: Subject, exec_id: str) -> bool:
        """Let an execution wait for an answer. Return whether it is the first, so that the caller must
        ask."""
        waiting = self._waiting.setdefault(subject, [])
        waiting.append(exec_id)
        return len(waiting) == 1

    def leave(self, subject: Subject, exec_id: str) -> bool:
        """Remove an execution that no longer needs an answer. Return whether no other execution waits for
        the same answer, so that the caller can withdraw the question."""
        waiting = self._waiting.get(subject, [])
        if exec_id not in waiting:
            return False
        waiting.remove(exec_id)
        if waiting:
            return False
        del self._waiting[subject]
        return True

    def settle(self, subject: Subject, answer: Answer | None) -> list[str]:
        """Return the executions that waited, oldest first, and remember the answer for as long as it says.

        None means that the question got no answer. It is not remembered: the next execution asks again.
        """
        if answer is not None and answer.remember is not None:
            # Another execution asked the question whose answer is remembered.
            remembered = replace(answer, by=f"{answer.by}, before,")
            match answer.remember:
                case Remember.PROCESS:
                    self._process.add(subject, remembered)
                case Remember.SESSION:
                    self._session.add(subject, remembered)
        return self._waiting.pop(subject, [])


class RememberedAnswers:
    """A bounded map from subjects to answers."""

    def __init__(self, limit: int = MAX_REMEMBERED) -> None:
        self._limit = limit
        self._answers: OrderedDict[Subject, Answer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, subject: Subject) -> Answer | None:
        """Return an answer, and count it as used."""
        answer = self._answers.get(subject)
        if answer is not None:
            self._answers.move_to_end(subject)
        return answer

    def add(self, subject: Subject, answer: Answer) -> None:
        """Remember an answer in place of an earlier one."""
        self._answers[subject] = answer
        self._answers.move_to_end(subject)
        if len(self._answers) > self._limit:
            self._answers.popitem(last=False)

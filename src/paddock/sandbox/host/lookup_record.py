"""Records questions about the host's files and their answers, to ask them again.

A conclusion from the answers holds as long as every question still has the same answer. So the answers are
kept to compare with the next look at the files, never to replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from paddock.errors import ProfileRefused
from paddock.sandbox.host.recheck import Recheck

T = TypeVar("T")

ANSWERS_LIMIT: Final = 50_000
"""Questions about one command. Each takes some microseconds; with 1,000 submodules there are about 15,000."""


Question = Callable[[str], object]

Expect = Callable[[Recheck, str, Any], bool]
"""Adds what follows from an answer about a path, if that would give the same answer again. Returns whether it
did."""


class LookupRecord:
    """Questions about paths, each asked once.

    A question is a function without a memory of its own. Its answer must contain everything that the caller
    learns. Where `expectations` can tell what an answer rests on, it need not be asked again.
    """

    def __init__(self, expectations: Mapping[Question, Expect] = MappingProxyType({})) -> None:
        self._expectations = expectations
        self._answers: dict[tuple[Question, str], object] = {}
        self._again: _Again | None = None
        self.path_chars = 0
        """Total length of the paths asked about."""
        self.is_complete = True
        """Whether nothing else was looked at."""

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[tuple[Question, str, object]]:
        """Yield each question, what it was about, and the answer."""
        for (question, path), answer in self._answers.items():
            yield question, path, answer

    def ask(self, question: Callable[[str], T], path: str) -> T:
        """Return the answer. An exception is not remembered. Raises ProfileRefused for too many questions."""
        key = question, path
        if key in self._answers:
            return cast("T", self._answers[key])
        if len(self._answers) >= ANSWERS_LIMIT:
            problem = f"is one of more than {ANSWERS_LIMIT} paths to look at"
            raise ProfileRefused(path, problem, "name fewer and shorter paths")
        self.path_chars += len(path)
        answer = self._answers[key] = question(path)
        return answer

    def note(self, question: Callable[[str], T], path: str, answer: T) -> None:
        """Remember an answer that is known already."""
        self._answers[question, path] = answer

    def still_holds(self, is_same: Callable[[str, object, object], bool] | None = None) -> bool:
        """Ask everything again, and return whether all answers are the same. A failure is a difference.

        Of two answers about a path that are not equal, `is_same` decides whether they lead to the same
        conclusion.
        """
        again = self._again
        if again is None or again.answers != len(self._answers):
            again = self._again = self._prepared()
        try:
            asked = [*(again.expected[number] for number in again.recheck.differing()), *again.rest]
            for key in asked:
                (question, path), answer = key, self._answers[key]
                found = question(path)
                if found != answer and (is_same is None or not is_same(path, answer, found)):
                    return False
        except (OSError, ProfileRefused):
            return False
        return True

    def _prepared(self) -> _Again:
        again = _Again(len(self._answers))
        for key, answer in self._answers.items():
            question, path = key
            expect = self._expectations.get(question)
            if expect is not None and expect(again.recheck, path, answer):
                again.expected.append(key)
            else:
                again.rest.append(key)
        return again


class _Again:
    """How to ask everything again."""

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.recheck = Recheck()
        self.expected: list[tuple[Question, str]] = []
        """The questions that need no answer while what they rest on is as it was."""
        self.rest: list[tuple[Question, str]] = []

"""Records questions about the host's files and their answers, to ask them again.

A conclusion from the answers holds as long as every question still has the same answer. So the answers are
kept to compare with the next look at the files, never to replace it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

from paddock.errors import ProfileRefused

T = TypeVar("T")

ANSWERS_LIMIT: Final = 50_000
"""Questions about one command. Each takes some microseconds; with 1,000 submodules there are about 15,000."""


class LookupRecord:
    """Questions about paths, each asked once.

    A question is a function without a memory of its own. Its answer must contain everything that the caller
    learns.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[Callable[[str], object], str], object] = {}
        self.path_chars = 0
        """Total length of the paths asked about."""

    def __len__(self) -> int:
        return len(self._answers)

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

    def still_holds(self, is_same: Callable[[str, object, object], bool] | None = None) -> bool:
        """Ask everything again, and return whether all answers are the same. A failure is a difference.

        Of two answers about a path that are not equal, `is_same` decides whether they lead to the same
        conclusion.
        """
        try:
            for (question, path), answer in self._answers.items():
                found = question(path)
                if found != answer and (is_same is None or not is_same(path, answer, found)):
                    return False
        except (OSError, ProfileRefused):
            return False
        return True

"""Records questions about the host's files and their answers, to ask them again.

What follows from the answers follows again as long as each question still has the same one. So the answers
are kept, never in place of a look at the files, but to be compared with the next look.
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

    A question is a function without a memory of its own. Its answer must hold all that its caller learns.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[Callable[[str], object], str], object] = {}
        self.path_chars = 0
        """The length of all paths that were asked about."""

    def __len__(self) -> int:
        return len(self._answers)

    def ask(self, question: Callable[[str], T], path: str) -> T:
        """Return the answer. What the question raises is not remembered; ProfileRefused for too many."""
        key = question, path
        if key in self._answers:
            return cast("T", self._answers[key])
        if len(self._answers) >= ANSWERS_LIMIT:
            problem = f"is one of more than {ANSWERS_LIMIT} paths to look at"
            raise ProfileRefused(path, problem, "name fewer and shorter paths")
        self.path_chars += len(path)
        answer = self._answers[key] = question(path)
        return answer

    def still_holds(self) -> bool:
        """Ask everything again, and return whether all answers are the same. One that fails is not."""
        try:
            for (question, path), answer in self._answers.items():
                if question(path) != answer:
                    return False
        except (OSError, ProfileRefused):
            return False
        return True

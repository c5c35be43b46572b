"""Questions of a server that have no answer."""

from __future__ import annotations

from paddock.errors.base import PaddockError


class QuestionError(PaddockError):
    """A question of the server has no answer. The code that asked proceeds as if the answer were no."""


class TooManyQuestions(QuestionError):
    """The session is at its limit for open questions, by number or by size. Nobody was asked."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the open questions of a session are limited to {self.limit}"


class QuestionTimedOut(QuestionError, TimeoutError):
    """Nobody answered in time. That is not a refusal."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return f"timed out: nobody answered within {self.timeout_s:g} s"


class QuestionWithdrawn(QuestionError):
    """Nothing needs the answer any more; `str()` says why."""


class AnswerFailed(QuestionError):
    """The client answered with an error, or its answer has no meaning; `str()` gives the details."""

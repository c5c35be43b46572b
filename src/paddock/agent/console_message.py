"""The messages between an agent with questions and the program that answers, one JSON object each. Pure."""

from __future__ import annotations

from msgspec import Struct

from paddock.agent.approval import Approval, ApprovalRequest


class ListQuestions(Struct, frozen=True, kw_only=True, tag="list", forbid_unknown_fields=True):
    """Ask which questions are open."""


class AnswerQuestion(Struct, frozen=True, kw_only=True, tag="answer", forbid_unknown_fields=True):
    """Answer one. It grants access, so unknown members are refused."""

    approval_id: str
    approval: Approval
    reason: str | None = None


class OpenApproval(Struct, frozen=True, kw_only=True):
    """A question that nobody has answered."""

    request: ApprovalRequest
    waited_s: float


class ClosedApproval(Struct, frozen=True, kw_only=True):
    """A question that needs no answer any more."""

    approval_id: str
    outcome: str
    """The answer, or why there was none, in one sentence."""


class Questions(Struct, frozen=True, kw_only=True, tag="questions"):
    """All open questions, oldest first."""

    pid: int
    questions: list[OpenApproval]
    closed: list[ClosedApproval] = []
    """The questions that were closed last."""


class Accepted(Struct, frozen=True, kw_only=True, tag="accepted"):
    """The answer counts."""


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The message, or the answer, does not count."""

    problem: str


ConsoleRequest = ListQuestions | AnswerQuestion
ConsoleReply = Questions | Accepted | Refused

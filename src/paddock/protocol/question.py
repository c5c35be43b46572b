"""Requests of the server to a client, and what both sides tell each other about them.

A question belongs to a session. It has an id of its own, and each link that it is sent on
gives it a request id besides, which is good on that link only.
"""

from __future__ import annotations

from typing import Literal

from paddock.model.decision import Action
from paddock.model.verdict import Remember, Verdict
from paddock.protocol.structure import Params, Result

EXEC_APPROVAL = "process/execApproval"


class QuestionParams(Result, frozen=True, kw_only=True):
    """What every request of the server tells."""

    question_id: str
    """The question, by the same id on each connection that it is sent on."""


class MatchedRule(Result, frozen=True, kw_only=True):
    """A rule that fits the command."""

    prefix: list[str]
    """The words of the command that the rule names."""
    action: Action
    """What the rule says."""
    path: str
    """The file that the rule is in."""
    line: int
    """Where in that file."""
    justification: str | None = None
    """Why, in the words of the rule's author."""


class ExecApprovalParams(QuestionParams, frozen=True, kw_only=True):
    """Ask what becomes of a program that a process wants to execute.

    Bytes that are not UTF-8 are shown as U+FFFD.
    """

    process_id: str
    exec_id: str
    """Which of the executions of this process."""
    program: str
    """The absolute path of the program, links resolved."""
    argv: list[str]
    """The arguments that it would get, its name first."""
    cwd: str
    """The working directory that it would run in."""
    matches: list[MatchedRule]
    """The rules that fit."""
    reason: str
    """Why somebody is asked, in one sentence."""


class ExecApprovalResult(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision. It grants access, so unknown members are refused."""

    verdict: Verdict
    """Run it in the sandbox, carry it out of the sandbox, or deny it."""
    reason: str | None = None
    """Why; the caller of a denied program reads it."""
    remember: Remember | None = None
    """Whether the answer stands for the same program, arguments and working directory in the rest of the
    process or session."""


class QuestionClosedEvent(Result, frozen=True, kw_only=True):
    """`question/closed`: a question needs no answer any more, and not because this client gave it."""

    question_id: str
    """Which question."""
    outcome: Literal["answered", "timedOut", "withdrawn"]
    """An operator answered, the time for an answer is over, or what needed the answer has ended."""

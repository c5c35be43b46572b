"""Requests of the server to a client, and the messages of both sides about them.

A question belongs to a session. It has an id of its own. Each link that carries it also gives
it a request id, which is valid on that link only.
"""

from __future__ import annotations

from typing import Literal

from paddock.model.decision import Action
from paddock.model.verdict import Remember, Verdict
from paddock.protocol.structure import Params, Result

EXEC_APPROVAL = "process/execApproval"


class QuestionParams(Result, frozen=True, kw_only=True):
    """The parameters that every request of the server has."""

    question_id: str
    """The question's id, the same on each connection that carries it."""


class MatchedRule(Result, frozen=True, kw_only=True):
    """A rule that fits the command."""

    prefix: list[str]
    """The words of the command that the rule names."""
    action: Action
    """What the rule says."""
    path: str
    """The file that the rule is in."""
    line: int
    """Its line in that file."""
    justification: str | None = None
    """Why, in the words of the rule's author."""


class ExecApprovalParams(QuestionParams, frozen=True, kw_only=True):
    """Ask for a decision on a program that a process wants to execute.

    U+FFFD stands for bytes that are not UTF-8.
    """

    process_id: str
    exec_id: str
    """The id of the execution in this process."""
    program: str
    """The absolute path of the program, links resolved."""
    argv: list[str]
    """The arguments that it would get, its name first."""
    cwd: str
    """The working directory that it would run in."""
    matches: list[MatchedRule]
    """The rules that fit."""
    reason: str
    """Why the server asks, in one sentence."""


class ExecApprovalResult(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decision. It grants access, so unknown members are refused."""

    verdict: Verdict
    """Run it in the sandbox, run it outside the sandbox, or deny it."""
    reason: str | None = None
    """Why; the caller of a denied program reads it."""
    remember: Remember | None = None
    """Whether the answer stands for the same program, arguments and working directory in the rest of the
    process or session."""


class QuestionClosedEvent(Result, frozen=True, kw_only=True):
    """`question/closed`: a question needs no answer any more, and not because this client answered."""

    question_id: str
    """The question."""
    outcome: Literal["answered", "timedOut", "withdrawn"]
    """An operator answered, the time for an answer is over, or nothing needs the answer any more."""

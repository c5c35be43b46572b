"""Questions to an approver, and the meaning of the answers.

An approver is one async callable: a request in, a decision out, as a word or as an `ApprovalDecision`. A
missing answer is never a yes: an approver that fails or takes too long approves nothing, and a timeout
differs from a no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from paddock.agent.permission import Permissions
from paddock.model.denial import Denial


class Approval(StrEnum):
    """The outcome of a question, whether somebody decided or nobody."""

    APPROVED = "approved"
    APPROVED_FOR_SESSION = "approved_for_session"
    """Yes, and to the same question until the agent is closed."""
    APPROVED_ALWAYS = "approved_execpolicy_amendment"
    """Yes, and a rule allows such commands from now on."""
    DENIED = "denied"
    TIMED_OUT = "timed_out"
    """Nobody answered in time. That is not a refusal."""
    ABORT = "abort"
    """No, and the model should stop."""

    @property
    def is_yes(self) -> bool:
        """Return whether the answer lets anything happen."""
        return self in (Approval.APPROVED, Approval.APPROVED_FOR_SESSION, Approval.APPROVED_ALWAYS)


class ApprovalDecision(Struct, frozen=True):
    """An answer."""

    approval: Approval
    reason: str | None = None
    """Why not; the model reads it."""
    prefix: tuple[str, ...] = ()
    """The first words of the commands that a rule is to allow; empty for the proposed ones."""


class ApprovalRequest(Struct, frozen=True):
    """A question. Every text may come from the model, so show it with `question_lines`."""

    approval_id: str
    call_id: str
    tool: str
    command: tuple[str, ...]
    """The exact words of the command; for files, the tool and the paths."""
    cwd: str
    reason: str
    """Why the agent has to ask."""
    changes: tuple[str, ...]
    """The changes that a yes makes, one sentence each."""
    rule: str | None = None
    """The rule that wants a question asked, and where it stands."""
    justification: str | None = None
    """The model's own reason."""
    denials: tuple[Denial, ...] = ()
    """What the sandbox denied in the earlier attempt."""
    proposed_prefix: tuple[str, ...] = ()
    """Commands that a rule could allow from now on."""
    is_retry: bool = False
    """Whether the sandbox denied an earlier attempt."""
    is_program: bool = False
    """Whether the question is about one program that a running command wants to execute."""
    permissions: Permissions | None = None
    """The permissions that a yes grants on top of the profile, if any."""
    is_unsandboxed: bool = False
    """Whether a yes lets the command run without the sandbox."""
    stdin: str | None = None
    """The whole input of the command, if it gets any."""
    patch: str | None = None
    """The whole change that a tool for files would make, if it makes one."""
    is_terminal: bool = False
    """Whether the model may type to the command while it runs."""
    called: str | None = None
    """The name that a program would get, if not its own. Some programs do other things under other names."""
    is_exact: bool = True
    """Whether the words appear exactly as they are. If not, others look the same; an answer holds once."""
    line: str | None = None
    """The line for the executor's own shell; None if the command is another program."""

    @property
    def available(self) -> tuple[Approval, ...]:
        """Return the answers that make sense."""
        session = (Approval.APPROVED_FOR_SESSION,) if self.is_exact else ()
        always = (Approval.APPROVED_ALWAYS,) if self.proposed_prefix else ()
        return (Approval.APPROVED, *session, *always, Approval.DENIED, Approval.ABORT)


Answered: TypeAlias = str | ApprovalDecision
"""An answer: a value of `Approval`, or a decision with its reason."""

Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Answered]]
"""An asynchronous function that takes a question and returns the answer: a value of `Approval`, such as
"approved", or an `ApprovalDecision`. The agent cancels it when nobody needs the answer any more."""


def decision_of(answer: Answered) -> ApprovalDecision:
    """Return the decision of an approver's answer. Raises ValueError for a word that is none."""
    if isinstance(answer, ApprovalDecision):
        return answer
    return ApprovalDecision(Approval(answer))


WITHDRAWN: Final = "it was withdrawn"


def answered_outcome(decision: ApprovalDecision) -> str:
    """Return the text for an approver that answers too late."""
    return f"it was answered already: {decision.approval}"


def outcome_of(ended: BaseException) -> str:
    """Return why an approver was cancelled: the message of `first_of`, or that the question is over."""
    return str(ended.args[0]) if ended.args else WITHDRAWN


class SessionApprovals:
    """Approvals for the rest of the session, keyed by everything that the answer depends on."""

    def __init__(self) -> None:
        self._keys: set[Hashable] = set()

    def has(self, key: Hashable) -> bool:
        """Return whether the same question was answered for good."""
        return key in self._keys

    def remember(self, key: Hashable) -> None:
        """Remember the answer, so that nobody asks this again."""
        self._keys.add(key)

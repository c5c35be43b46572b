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
    """The same for the same question until the agent is closed."""
    APPROVED_ALWAYS = "approved_execpolicy_amendment"
    """The same, and a rule allows such commands from now on."""
    DENIED = "denied"
    TIMED_OUT = "timed_out"
    """Nobody answered in time, which is not a refusal."""
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
    """Why not, for the model."""
    prefix: tuple[str, ...] = ()
    """The first words of the commands that a rule is to allow; as proposed if empty."""


class ApprovalRequest(Struct, frozen=True):
    """A question. Every text may come from the model: show it with `paddock.agent.question_text`."""

    approval_id: str
    call_id: str
    tool: str
    command: tuple[str, ...]
    """The exact words that would be started; for files, the tool and the paths."""
    cwd: str
    reason: str
    """Why this has to be asked."""
    changes: tuple[str, ...]
    """The changes that a yes makes, one sentence each."""
    rule: str | None = None
    """The rule that wants it asked, and where it stands."""
    justification: str | None = None
    """The model's own reason."""
    denials: tuple[Denial, ...] = ()
    """What the sandbox denied in the attempt before."""
    proposed_prefix: tuple[str, ...] = ()
    """Commands that a rule could allow from now on."""
    is_retry: bool = False
    """Whether it was tried before, and denied."""
    is_program: bool = False
    """Whether it is about one program that a running command wants to execute."""
    permissions: Permissions | None = None
    """The permissions that a yes grants on top of the profile, if any."""
    is_unsandboxed: bool = False
    """Whether a yes lets it run without the sandbox."""
    stdin: str | None = None
    """All that the command reads as its input, if it is given any."""
    patch: str | None = None
    """The whole change that a tool for files would make, if it makes one."""
    is_terminal: bool = False
    """Whether the model may type to it as long as it runs."""
    called: str | None = None
    """The name that a program would get, where it is not its own: some do other things then."""
    is_exact: bool = True
    """Whether the words are shown as they are; if not, others look alike, and an answer holds once."""
    line: str | None = None
    """The line that the executor's own shell is to run; None for any other program."""

    @property
    def available(self) -> tuple[Approval, ...]:
        """Return the answers that make sense."""
        session = (Approval.APPROVED_FOR_SESSION,) if self.is_exact else ()
        always = (Approval.APPROVED_ALWAYS,) if self.proposed_prefix else ()
        return (Approval.APPROVED, *session, *always, Approval.DENIED, Approval.ABORT)


Answered: TypeAlias = str | ApprovalDecision
Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Answered]]


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

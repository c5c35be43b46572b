"""Turns an execution into a verdict, with everything that led to it. Pure.

    decision_of what the rules alone say of an execution
    plain_run   the verdict if no rule is about it
    judge       what that means: a verdict, or that somebody has to be asked
    settle      the verdict of an execution that somebody was asked about
    undone      what the verdict becomes where it could not be carried out

Rules come as a callable and never let out more than the terms of the command allow: where a program
can't be escalated it runs in the sandbox, and the verdict says why.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from paddock.intercept.environment import EscalatedEnvironment, escalated_environment
from paddock.intercept.execution import Execution
from paddock.intercept.trust import IsWritable, distrust, is_named_safely
from paddock.model.decision import Action, Decision, Origin, RuleMatch, strictest
from paddock.model.verdict import Remember, Verdict

Decide = Callable[[Sequence[str], str], Decision]
"""Returns the rules' decision on a command, whose program is an absolute path, in a working directory."""


class Ground(StrEnum):
    """What a verdict rests on."""

    START = "start"
    """It is the command itself, which the rules judged when it was started."""
    NO_RULE = "no-rule"
    RULE = "rule"
    ANSWER = "answer"
    NO_ANSWER = "no-answer"
    """Somebody should have answered and did not, for example because time ran out."""


class Terms(Struct, frozen=True):
    """The terms that apply to all executions of a command."""

    is_writable: IsWritable
    """Returns whether its sandbox may write a path."""
    environment: Mapping[str, str]
    """The variables that its client started it with."""
    set_inside: Mapping[str, str] = {}
    """The variables that Paddock has set for its sandbox alone."""
    no_escalation: str | None = None
    """Why nothing may leave its sandbox; None if something may. See `escalation_refused`."""
    asks: bool = True
    """Whether to ask about executions that the rules leave open. If false, they are denied."""


class ExecVerdict(Struct, frozen=True):
    """The verdict on one execution."""

    verdict: Verdict
    ground: Ground
    reason: str
    """One sentence for people."""
    matches: tuple[RuleMatch, ...] = ()
    """Every rule that matches."""
    justification: str | None = None
    """Why, in the words of the author of the rule that decides."""
    origin: Origin | None = None
    """Where that rule stands."""
    not_escalated: str | None = None
    """Why it runs in the sandbox although a rule or an answer would let it out."""
    environment: EscalatedEnvironment | None = None
    """The part of its caller's environment that it gets outside the sandbox."""
    told: str | None = None
    """The message about a denial for its caller, starting with the reference's words; the reason if None."""

    @property
    def is_plain(self) -> bool:
        """Return whether no decision was needed: the program runs as it would without rules."""
        return self.verdict is Verdict.RUN and self.ground in (Ground.START, Ground.NO_RULE)

    @property
    def message(self) -> str:
        """Return the line for the caller of a denied program, in the reference's words."""
        return f"Execution denied: {self.told or self.reason}\n"


class Approval(Struct, frozen=True):
    """Somebody has to be asked."""

    decision: Decision
    reason: str
    """Why, and which answers are not possible, in one sentence."""


class Answer(Struct, frozen=True):
    """What somebody decided."""

    verdict: Verdict
    by: str
    """Who, for records."""
    reason: str | None = None
    remember: Remember | None = None


class NoAnswer(Struct, frozen=True):
    """Nobody decided."""

    reason: str
    """Why not, such as `timed out: nobody answered within 60 s`."""


def escalation_refused(
    *, is_allowed: bool, requires_sandbox: bool, cap: str | None, denies_reads: bool
) -> str | None:
    """Return why nothing may leave a sandbox; None if something may.

    The settings of the server come first: `is_allowed` is `allow_escalation`, `cap` the name of
    `max_profile`.
    """
    if not is_allowed:
        return "this server lets nothing out of a sandbox (allow_escalation)"
    if requires_sandbox:
        return "this server requires a sandbox (require_sandbox)"
    if cap is not None:
        return f"this server lets nothing exceed the profile {cap!r} (max_profile)"
    if denies_reads:
        return "the profile denies reads, which a program outside of it could do"
    return None


def judge(execution: Execution, decide: Decide, terms: Terms) -> ExecVerdict | Approval:
    """Return the verdict of the rules on an execution, or the approval that it needs."""
    if execution.is_first:
        return ExecVerdict(Verdict.RUN, Ground.START, "it is the command that was started")
    decisions = _decisions(execution, decide, terms.is_writable)
    decision = _combined(list(decisions.values()))
    match decision.action:
        case None:
            return _plain(decision)
        case Action.FORBIDDEN:
            return replace(_by_rule(Verdict.DENY, decision), told=f"{_FORBIDDEN}: {decision.reason}")
        case Action.ALLOW:
            misnamed = _misnamed(execution, decisions)
            return _escalated(execution, terms, _by_rule(Verdict.ESCALATE, decision), misnamed)
        case Action.PROMPT:
            if terms.asks:
                return Approval(decision, _question(execution, terms, decision))
            return _by_rule(Verdict.DENY, decision, f"{decision.reason}, and nobody is asked")


def decision_of(execution: Execution, decide: Decide, is_writable: IsWritable) -> Decision:
    """Return the decision of the rules alone on an execution, as `judge` gets it from them."""
    return _combined(list(_decisions(execution, decide, is_writable).values()))


def plain_run(execution: Execution, decide: Decide, is_writable: IsWritable) -> ExecVerdict | None:
    """Return the verdict on an execution that no rule is about; None for any other, which needs `judge`.

    Looks only at the execution's program, name, arguments and directory.
    """
    decision = decision_of(execution, decide, is_writable)
    return _plain(decision) if decision.action is None else None


def settle(execution: Execution, approval: Approval, answer: Answer | NoAnswer, terms: Terms) -> ExecVerdict:
    """Return the verdict on an execution that somebody was asked about."""
    decision = approval.decision
    if isinstance(answer, NoAnswer):
        return ExecVerdict(
            Verdict.DENY,
            Ground.NO_ANSWER,
            f"{decision.reason}; {answer.reason}",
            decision.matches,
            decision.justification,
            _origin(decision),
        )
    verb = _ANSWERED[answer.verdict]
    reason = f"{decision.reason}; {answer.by} {verb}" + (f": {answer.reason}" if answer.reason else "")
    given = ExecVerdict(
        answer.verdict, Ground.ANSWER, reason, decision.matches, decision.justification, _origin(decision)
    )
    if answer.verdict is Verdict.DENY:
        return replace(given, told=f"{answer.reason or _DECLINED} ({decision.reason})")
    return _escalated(execution, terms, given) if answer.verdict is Verdict.ESCALATE else given


def undone(found: ExecVerdict, problem: str) -> ExecVerdict:
    """Return a verdict that nothing was executed after all, although the first verdict allowed it."""
    reason = f"{found.reason}; {problem}"
    return replace(found, verdict=Verdict.DENY, reason=reason, environment=None, not_escalated=None)


_FORBIDDEN = "Execution forbidden by policy"
_DECLINED = "User declined execution"

_ANSWERED = {
    Verdict.RUN: "lets it run in the sandbox",
    Verdict.ESCALATE: "lets it out of the sandbox",
    Verdict.DENY: "refused it",
}


# --- rules ------------------------------------------------------------------


def _decisions(execution: Execution, decide: Decide, is_writable: IsWritable) -> dict[str, Decision]:
    """Ask the rules about the program by its real path, and also by the path it was called by if the
    sandbox can't influence that: `/usr/bin/awk` is `awk`, and `mawk` too."""
    paths = [execution.program]
    if execution.called != execution.program and is_named_safely(execution, is_writable):
        paths.append(execution.called)
    return {path: decide((path, *execution.arguments), execution.cwd) for path in paths}


def _combined(decisions: Sequence[Decision]) -> Decision:
    """Combine the decisions on a program's names: the strictest rule decides."""
    matches = tuple(dict.fromkeys(match for decision in decisions for match in decision.matches))
    if len(decisions) == 1 or not matches:
        return decisions[0]
    action = strictest(match.action for match in matches)
    decisive = next(decision for decision in decisions if decision.action is action and decision.matches)
    return Decision(action, decisive.command, matches)


def _misnamed(execution: Execution, decisions: Mapping[str, Decision]) -> str | None:
    """Return why a rule that allows a program is not about what the program would do; None if it is.

    A program with many names, such as busybox or git, does what the name it is called by says. The caller
    chooses that name freely, so it must be the one that the rule allows.
    """
    name = posixpath.basename(execution.argv[0]) if execution.argv else ""
    is_allowed = any(
        decision.action is Action.ALLOW and posixpath.basename(path) == name
        for path, decision in decisions.items()
    )
    return None if is_allowed else f"its caller calls it {name!r}, which is not the name that is allowed"


def _plain(decision: Decision) -> ExecVerdict:
    return ExecVerdict(Verdict.RUN, Ground.NO_RULE, decision.reason)


def _by_rule(verdict: Verdict, decision: Decision, reason: str | None = None) -> ExecVerdict:
    return ExecVerdict(
        verdict,
        Ground.RULE,
        reason or decision.reason,
        decision.matches,
        decision.justification,
        _origin(decision),
    )


def _origin(decision: Decision) -> Origin | None:
    decisive = decision.decisive
    return decisive.origin if decisive is not None else None


# --- escalation -------------------------------------------------------------


def _escalated(
    execution: Execution, terms: Terms, wanted: ExecVerdict, misnamed: str | None = None
) -> ExecVerdict:
    """Let a program out of the sandbox, or say why it stays there.

    A person who answers has seen the whole command. So after an answer the name it is called by needs no
    check, and harmful variables are left out; a rule does not apply at all in these cases.
    """
    environment = escalated_environment(
        execution.environment, terms.environment, terms.is_writable, terms.set_inside
    )
    obstacle = _obstacle(execution, terms)
    if obstacle is None and wanted.ground is Ground.RULE:
        obstacle = misnamed or environment.distrust
    return ExecVerdict(
        Verdict.ESCALATE if obstacle is None else Verdict.RUN,
        wanted.ground,
        wanted.reason if obstacle is None else f"{wanted.reason}; it stays in the sandbox: {obstacle}",
        wanted.matches,
        wanted.justification,
        wanted.origin,
        obstacle,
        environment if obstacle is None else None,
    )


def _obstacle(execution: Execution, terms: Terms) -> str | None:
    return terms.no_escalation or distrust(execution, terms.is_writable)


def _question(execution: Execution, terms: Terms, decision: Decision) -> str:
    obstacle = _obstacle(execution, terms)
    if obstacle is None:
        return decision.reason
    return f"{decision.reason}; it can't be let out of the sandbox: {obstacle}"

"""Decides on a program that needs an approval, for the call that it belongs to."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from msgspec import Struct

from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest
from paddock.agent.box_executor import ProgramQuestions
from paddock.agent.command_rules import CommandRules
from paddock.agent.danger import looks_dangerous
from paddock.agent.program_question import REPLACED, called_name, is_exact, program_key
from paddock.agent.yield_clock import YieldClock
from paddock.errors import CallRejected, RulesError
from paddock.mcp_server.elicitation import CANCELLED, DECLINED
from paddock.mcp_server.pending_call import PendingCall
from paddock.mcp_server.question_asker import QuestionAsker
from paddock.model.decision import Action, Origin
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule

SHELL_PREFIX: Final = "shell-"
"""How the ids of the commands of `shell` begin."""

BUILT_IN: Final = "(built in)"
"""Where the rule stands that asks about commands which remove files by force."""

_REMOVAL: Final = PrefixRule(
    (("rm",), ("-f", "--force")),
    Action.PROMPT,
    Origin(BUILT_IN, 1),
    "it removes files by force",
    has_free_flags=True,
)


class _Run(Struct, frozen=True):
    """A command under way."""

    call: PendingCall
    clock: YieldClock
    asker: QuestionAsker
    rules: CommandRules


class ExecQuestions:
    """Answers `process/execApproval` for every command of a connection, as its call has it."""

    def __init__(self) -> None:
        self.programs = ProgramQuestions()
        """The questions about commands of `exec_command`."""
        self._runs: dict[str, _Run] = {}

    @contextmanager
    def about(self, process_id: str, run: _Run) -> Iterator[None]:
        """Handle the questions about a process for the duration of the block."""
        self._runs[process_id] = run
        try:
            yield
        finally:
            del self._runs[process_id]

    async def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        """Ask as the call does. The command's clock stands still in the meantime."""
        run = self._runs.get(params.process_id)
        if run is None and not params.process_id.startswith(SHELL_PREFIX):
            return await self.programs(params)
        if run is None:
            return ExecApprovalResult(verdict=Verdict.DENY, reason="the call that it belonged to is over")
        allowed = Verdict.RUN if _is_built_in(params) else Verdict.ESCALATE
        if allowed is Verdict.RUN and _is_allowed(params):
            return ExecApprovalResult(verdict=Verdict.ESCALATE)
        request = _request(params, run, allowed)
        key = (request.tool, program_key(params), allowed)
        if request.is_exact and run.asker.is_approved(key):
            return ExecApprovalResult(verdict=allowed)
        with run.clock.asking():
            decision = await run.asker.ask(run.call, request)
        if not decision.approval.is_yes:
            return ExecApprovalResult(verdict=Verdict.DENY, reason=_refusal(decision))
        if decision.approval is Approval.APPROVED_FOR_SESSION:
            if request.is_exact:
                run.asker.remember(key)
        elif decision.approval is Approval.APPROVED_ALWAYS:
            try:
                # It waits for others that amend the same file.
                await asyncio.to_thread(run.rules.allow, decision.prefix or request.proposed_prefix)
            except RulesError as error:
                return ExecApprovalResult(verdict=Verdict.DENY, reason=f"no rule could be added: {error}")
        return ExecApprovalResult(verdict=allowed)


class ShellQuestions:
    """The questions of one session's commands."""

    def __init__(self, questions: ExecQuestions, asker: QuestionAsker, rules: CommandRules) -> None:
        self._questions = questions
        self._asker = asker
        self._rules = rules

    @contextmanager
    def asked_for(self, process_id: str, call: PendingCall, clock: YieldClock) -> Iterator[None]:
        """Answer questions about a process for the duration of the block."""
        with self._questions.about(process_id, _Run(call, clock, self._asker, self._rules)):
            yield

    async def check_line(self, call: PendingCall, argv: tuple[str, ...], line: str, cwd: str) -> None:
        """Hold a line that `argv` runs against the rules where no sandbox holds its programs.

        Raises CallRejected.
        """
        await self._rules.look_at(line)
        decision = self._rules.decide(argv, line, cwd)
        if decision.action is Action.FORBIDDEN:
            raise CallRejected(decision.reason)
        if decision.action is not Action.PROMPT and not looks_dangerous(line):
            return
        request = ApprovalRequest(
            approval_id=uuid4().hex,
            call_id=call.id,
            tool="shell",
            command=argv,
            cwd=cwd,
            reason="it removes files by force" if decision.action is None else decision.reason,
            changes=("It runs without a sandbox, as everything does here.",),
            rule=None if decision.decisive is None else str(decision.decisive.origin),
        )
        if self._asker.is_approved((request.tool, request.command, cwd)):
            return
        answer = await self._asker.ask(call, request)
        if not answer.approval.is_yes:
            raise CallRejected(_refusal(answer))
        if answer.approval is Approval.APPROVED_FOR_SESSION:
            self._asker.remember((request.tool, request.command, cwd))


def shell_policy(policy: Policy, line: str) -> Policy:
    """Return the rules about the programs of a line: one more if the line itself looks dangerous.

    Nobody is asked about dangerous commands in a script or a makefile that the line runs; the sandbox
    confines those.
    """
    if not looks_dangerous(line):
        return policy
    rules = (*policy.rules, _REMOVAL)
    return Policy(rules, policy.host_executables, policy.network_rules, policy.problems)


def _is_built_in(params: ExecApprovalParams) -> bool:
    asking = [match for match in params.matches if match.action is Action.PROMPT]
    return bool(asking) and all(match.path == BUILT_IN for match in asking)


def _is_allowed(params: ExecApprovalParams) -> bool:
    """Return whether a rule of the user's allows what the program would do.

    A program with many names, such as busybox, does what the name says that its caller has chosen.
    """
    name = posixpath.basename(params.argv[0]) if params.argv else ""
    allowing = (match.prefix for match in params.matches if match.action is Action.ALLOW)
    return any(posixpath.basename(prefix[0]) == name for prefix in allowing if prefix)


def _request(params: ExecApprovalParams, run: _Run, allowed: Verdict) -> ApprovalRequest:
    asking = next((match for match in params.matches if match.action is Action.PROMPT), None)
    where = "outside of the sandbox" if allowed is Verdict.ESCALATE else "in the sandbox"
    return ApprovalRequest(
        approval_id=params.question_id,
        call_id=run.call.id,
        tool="shell",
        command=(params.program, *params.argv[1:]),
        cwd=params.cwd,
        reason=params.reason,
        changes=(f"It runs {where}.",),
        rule=None if asking is None else f"{asking.path}:{asking.line}",
        justification=None if asking is None else asking.justification,
        proposed_prefix=_prefix(params, run.rules) if allowed is Verdict.ESCALATE else (),
        called=called_name(params),
        is_exact=is_exact(params),
    )


def _prefix(params: ExecApprovalParams, rules: CommandRules) -> tuple[str, ...]:
    """Return the prefix that a rule could allow from now on; empty where it would allow too much, or change
    nothing.

    Rules about the path of a program come before those about its name, and the strictest of either kind
    decides.
    """
    words = [params.program, *(word for word in params.argv[1:2] if not word.startswith("-"))]
    by_path = any(match.prefix[:1] == [params.program] for match in params.matches)
    # Another character stands for bytes that are not UTF-8: a rule about it would be about something else.
    return () if by_path or any(REPLACED in word for word in words) else rules.checked_prefix(words)


def _refusal(decision: ApprovalDecision) -> str:
    if decision.reason:
        return decision.reason
    return CANCELLED if decision.approval is Approval.ABORT else DECLINED

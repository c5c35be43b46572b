"""From what a tool wants to what is done: rules, approval, an attempt in the sandbox, a retry with more.

    rules -> approval if needed -> attempt -> denied? -> approval -> retry with just what was missing

The retry gets the permission that the denial names for certain and keeps the rest of the profile; where it is
not known what was missing, it runs without a sandbox, unless the profile hides something. Its result is
final.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Final, Generic, TypeVar
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest
from paddock.agent.approval_asker import ApprovalAsker
from paddock.agent.approval_policy import (
    Policy,
    asks_after_denial,
    asks_for_rules,
    lets_model_ask,
    requirement,
)
from paddock.agent.command_rules import CommandRules
from paddock.agent.exec_arguments import SandboxPermissions
from paddock.agent.exec_request import WITHOUT_FILES_ENVIRONMENT, may_read_files, unsandboxed_words
from paddock.agent.executor import Command, Executor, PreparedExecSpec, ProgramRules
from paddock.agent.permission import Confinement, Permissions, Reach, lack_of
from paddock.agent.place import Places
from paddock.agent.program_question import program_key, program_question
from paddock.agent.program_trust import ProgramTrust
from paddock.agent.proposal import Proposal
from paddock.agent.real_path import real_path
from paddock.agent.widening import Widener, Widening
from paddock.agent.yield_clock import YieldClock
from paddock.client.confinement import Sandbox
from paddock.errors import ApprovalFailed, CallRejected, NotFound, RequestError, RunTimeout
from paddock.model.decision import Action, Decision
from paddock.model.denial import Denial
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from paddock.quotation import quoted

T = TypeVar("T")


class Launch(Struct, frozen=True):
    """How to make an attempt: exactly what the approver was asked about, if anyone was."""

    argv: tuple[str, ...]
    cwd: str
    sandbox: Sandbox | None
    changes: tuple[str, ...]
    """The changes that this makes, one sentence each."""
    env: Mapping[str, str]
    """Variables on top of what the executor gives every command."""
    widening: Widening | None = None
    """What the sandbox grants on top of the profile."""
    prepared: PreparedExecSpec | None = None
    """The prepared start of an attempt without a sandbox, where the executor takes such starts."""
    cwd_without_links: bool = False
    """Whether `cwd` has been looked up, so that no link may lead elsewhere when the attempt is made."""

    @property
    def added(self) -> Permissions | None:
        """Return the permissions that the sandbox grants on top of the profile."""
        return None if self.widening is None else self.widening.added


class Attempt(Struct, Generic[T], frozen=True):
    """The outcome of an attempt."""

    value: T
    is_denied: bool = False
    denials: tuple[Denial, ...] = ()


class Settled(Struct, Generic[T], frozen=True):
    """The final outcome, and notes for the model on how it came about."""

    value: T
    notes: tuple[str, ...] = ()


class Orchestrator:
    """Decides for one agent. With `intercepts`, the executor asks about programs too."""

    def __init__(
        self,
        executor: Executor,
        confinement: Confinement,
        roots: tuple[str, ...],
        *,
        policy: Policy,
        asker: ApprovalAsker,
        rules: CommandRules | None = None,
        trust: ProgramTrust,
        reach: Reach,
        traces: bool = False,
        intercepts: bool = False,
    ) -> None:
        self._executor = executor
        self._confinement = confinement
        self._roots = roots
        self._policy = policy
        self._asker = asker
        self._rules = rules
        self._trust = trust
        self._traces = traces
        self._intercepts = intercepts
        self.places: Final = Places(executor, confinement, reach, self.sandbox)
        self._widener = Widener(confinement, self.places, self.sandbox)

    @property
    def sandbox(self) -> Sandbox | None:
        """Return what a command without any approval runs in; None if the profile asks for no sandbox."""
        if not self._confinement.is_restricted:
            return None
        return Sandbox(self._confinement.written, self._roots, trace=self._traces)

    async def run(
        self, proposal: Proposal, attempt: Callable[[Launch, int], Awaitable[Attempt[T]]]
    ) -> Settled[T]:
        """Do what a tool proposes, if it may. Raises CallRejected if not, and what `attempt` raises."""
        proposal = await self._doubted(proposal)
        launch = await self._approved(proposal)
        self._note_granted(launch)
        first = await attempt(launch, 1)
        if not first.is_denied or launch.sandbox is None:
            return Settled(first.value)
        told = denial_note(first.denials)
        proposal = await self._doubted(proposal, leaves_sandbox=True)
        is_allowed = proposal.verdict is not None and proposal.verdict.action is Action.ALLOW
        if not is_allowed and not asks_after_denial(self._policy):
            return Settled(first.value, (told, _ADVICE) if lets_model_ask(self._policy) else (told,))
        wider = await self._retry(proposal, first.denials)
        if isinstance(wider, str):
            return Settled(first.value, (told, wider))
        if self._intercepts and wider.sandbox is None and is_allowed:
            # The rule allows the command, and says nothing of what it executes in turn.
            if not asks_after_denial(self._policy):
                return Settled(first.value, (told,))
            is_allowed = False
        if not is_allowed:
            if (unshown := proposal.unshown) is not None:
                return Settled(first.value, (told, f"There was no retry: {unshown}."))
            question = self._question(proposal, wider, "the sandbox denied it", first.denials)
            try:
                decision = await self._asker.ask(question, self._key(proposal, wider))
            except ApprovalFailed as error:
                # The first attempt has happened, and the model must know of it.
                return Settled(first.value, (told, f"There was no retry: {error}"))
            if not decision.approval.is_yes:
                return Settled(first.value, (told, f"A retry was {_refusal(decision)}."))
        again = wider if wider.widening is None else await self._retry(proposal, first.denials)
        if (obstacle := _obstacle(wider, again)) is not None:
            return Settled(first.value, (told, f"There was no retry: {obstacle}."))
        self._note_granted(wider)
        second = await attempt(wider, 2)
        by = "A rule allows it" if is_allowed else "Approved"
        notes = [f"The first attempt was denied by the sandbox. {by}: {' '.join(wider.changes)}"]
        if second.is_denied:
            notes.append(denial_note(second.denials))
        return Settled(second.value, tuple(notes))

    def _note_granted(self, launch: Launch) -> None:
        if self._rules is not None and launch.added is not None:
            self._rules.note_granted(launch.added.write)

    # --- before the first attempt -------------------------------------------

    async def _doubted(self, proposal: Proposal, *, leaves_sandbox: bool = False) -> Proposal:
        """Return the proposal, without the rule that allows it if that does not hold for it."""
        verdict = proposal.verdict
        if verdict is None or verdict.action is not Action.ALLOW or not proposal.programs:
            return proposal
        doubt = proposal.doubt_of_rule
        sandbox = self.sandbox
        leaves_sandbox |= proposal.wish is SandboxPermissions.REQUIRE_ESCALATED
        if doubt is None and leaves_sandbox and sandbox is not None:
            programs = (self._executor.shell, *proposal.programs)
            granted = () if self._rules is None else self._rules.granted
            doubt = await self._trust.distrust(programs, sandbox, granted)
            if doubt is None and may_read_files(await self._real_program(self._executor.shell, "/")):
                doubt = f"{self._executor.shell} may read files first, which commands may have written"
        if doubt is None:
            return proposal
        return replace(proposal, verdict=Decision(None, verdict.command), doubt=doubt)

    async def _approved(self, proposal: Proposal) -> Launch:
        """Return how to run it first. Raises CallRejected if it may not run at all."""
        verdict = proposal.verdict
        action = None if verdict is None else verdict.action
        if action is Action.PROMPT and self._asks_about_programs(proposal):
            # Somebody is asked when the program is executed, and about that alone.
            action = None
        if action is Action.ALLOW and self._intercepts and not self._asks_about_programs(proposal):
            # Without the sandbox nothing would hold the rules against what the command executes.
            action = None
        needed = requirement(
            self._policy,
            action,
            proposal.wish,
            is_restricted=self._confinement.is_restricted,
            is_dangerous=proposal.is_dangerous,
        )
        if needed.refusal is not None:
            reason = verdict.reason if verdict is not None and verdict.action is not None else needed.refusal
            raise CallRejected(reason)
        launch = await self._wanted(proposal)
        if not needed.must_ask:
            if (obstacle := _obstacle(launch, launch)) is not None:
                raise CallRejected(obstacle)
            return launch
        if (unshown := proposal.unshown) is not None:
            raise CallRejected(unshown)
        decision = await self._asker.ask(
            self._question(proposal, launch, _reason(proposal)), self._key(proposal, launch)
        )
        if not decision.approval.is_yes:
            raise CallRejected(f"it was {_refusal(decision)}")
        # A confined command may exchange directories for links while somebody is asked.
        again = launch if launch.widening is None else await self._wanted(proposal)
        if (obstacle := _obstacle(launch, again)) is not None:
            raise CallRejected(obstacle)
        return launch

    async def _wanted(self, proposal: Proposal) -> Launch:
        """Return the attempt that a proposal asks for. Raises CallRejected."""
        base = self.sandbox
        if base is None:
            # Nothing is confined, so whoever could write a file that a shell reads has written the rest too.
            argv = _unsandboxed_words(proposal, proposal.command[0])
            changes = ("It runs without a sandbox, as everything does here.",)
            return Launch(argv, proposal.cwd, None, changes, proposal.env)
        match proposal.wish:
            case SandboxPermissions.USE_DEFAULT:
                return _launch(proposal, base, ("It runs in the sandbox, with the profile as it is.",))
            case SandboxPermissions.REQUIRE_ESCALATED:
                if self._confinement.denies_reads:
                    raise CallRejected(_HIDING)
                return await self._unsandboxed(proposal)
            case SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS:
                wider = await self._widened(proposal, proposal.permissions, for_files=proposal.is_about_files)
                if wider is None:
                    raise CallRejected("this profile can't be given more permissions")
                return wider

    async def _unsandboxed(self, proposal: Proposal) -> Launch:
        """Return an attempt without a sandbox, prepared where the executor takes such starts."""
        changes = (_UNSANDBOXED, _UNINTERCEPTED) if self._intercepts else (_UNSANDBOXED,)
        # A confined command may replace its directories with links while somebody is asked.
        cwd = await real_path(self._executor.files(self.sandbox), proposal.cwd)
        program = proposal.command[0]
        if proposal.shell_line is not None:
            program = await self._real_program(program, proposal.cwd)
            if may_read_files(program):
                changes = (*changes, f"{quoted(program)} {_READING}")
        argv = _unsandboxed_words(proposal, program)
        env = {**proposal.env, **WITHOUT_FILES_ENVIRONMENT}
        prepared = await self._executor.prepare(Command(argv=argv, cwd=cwd, env=env), self.sandbox)
        if prepared is None:
            return Launch(argv, cwd, None, changes, env, cwd_without_links=True)
        return Launch(
            prepared.argv, prepared.cwd, None, changes, env, prepared=prepared, cwd_without_links=True
        )

    async def _real_program(self, program: str, cwd: str) -> str:
        """Return where the path of a program leads, or that of the first file of its name on PATH."""
        files = self._executor.files(self.sandbox)
        if "/" in program:
            return await real_path(files, posixpath.join(cwd, program))
        with suppress(RequestError, RunTimeout):
            search_path = await self._executor.search_path(self.sandbox)
            for directory in (search_path or "").split(":"):
                with suppress(NotFound):
                    return await files.canonicalize(posixpath.join(cwd, directory, program))
        # The start itself will say what is wrong with it.
        return program

    # --- about one program --------------------------------------------------

    def _asks_about_programs(self, proposal: Proposal) -> bool:
        """Return whether somebody is asked about each program that it executes. That takes a sandbox."""
        return (
            self._intercepts
            and self.sandbox is not None
            and proposal.wish is not SandboxPermissions.REQUIRE_ESCALATED
        )

    def program_rules(self, proposal: Proposal, launch: Launch, clock: YieldClock) -> ProgramRules | None:
        """Return what becomes of the programs of an attempt; None if nothing is asked about them.

        `clock` stands still while somebody is asked.
        """
        if not self._intercepts or self._rules is None or launch.sandbox is None:
            return None
        rules = self._rules.programs(asks=asks_for_rules(self._policy), distrusted=self._trust.distrusted)
        if rules is None:
            return None

        async def decide(params: ExecApprovalParams) -> ExecApprovalResult:
            with clock.asking():
                return await self._decided(proposal, params)

        return ProgramRules(rules, decide)

    async def _decided(self, proposal: Proposal, params: ExecApprovalParams) -> ExecApprovalResult:
        """Ask about one program. Without approval, deny it and tell its caller why."""
        question = program_question(proposal.call_id, proposal.justification, params)
        key = (self._executor.identity, "program", program_key(params))
        try:
            decision = await self._asker.ask(question, key)
        except ApprovalFailed as error:
            return ExecApprovalResult(verdict=Verdict.DENY, reason=str(error))
        if decision.approval.is_yes:
            return ExecApprovalResult(verdict=Verdict.ESCALATE)
        return ExecApprovalResult(verdict=Verdict.DENY, reason=f"it was {_refusal(decision)}")

    # --- after a denial -----------------------------------------------------

    async def _retry(self, proposal: Proposal, denials: tuple[Denial, ...]) -> Launch | str:
        """Return the attempt that would not be denied, or why there is none."""
        lack = lack_of(denials)
        if lack.protected:
            return "What was denied is protected on purpose; no approval grants it."
        if lack.permissions:
            asked = _together(proposal.permissions, lack.permissions)
            wider = await self._widened(proposal, asked)
            if wider is not None:
                return wider
        if self._confinement.denies_reads:
            return _HIDING
        return await self._unsandboxed(proposal)

    async def _widened(
        self, proposal: Proposal, permissions: Permissions, *, for_files: bool = False
    ) -> Launch | None:
        """Return an attempt in the sandbox with more permissions; None where that can't be had."""
        wider = await self._widener.widened(permissions, for_files=for_files)
        if wider is None:
            return None
        return _launch(proposal, wider.sandbox, wider.changes, widening=wider)

    # --- questions ----------------------------------------------------------

    def _question(
        self,
        proposal: Proposal,
        launch: Launch,
        reason: str,
        denials: tuple[Denial, ...] = (),
    ) -> ApprovalRequest:
        verdict = proposal.verdict
        decisive = None if verdict is None else verdict.decisive
        # The strictest rule decides: one that allows would change nothing about one that wants a question.
        can_amend = self._rules is not None and (verdict is None or verdict.action is None)
        can_amend = can_amend and proposal.doubt is None
        return ApprovalRequest(
            approval_id=uuid4().hex,
            call_id=proposal.call_id,
            tool=proposal.tool,
            command=launch.argv,
            cwd=launch.cwd,
            reason=reason,
            changes=launch.changes,
            permissions=launch.added,
            is_unsandboxed=launch.sandbox is None,
            rule=None if decisive is None else str(decisive.origin),
            justification=proposal.justification,
            denials=denials,
            proposed_prefix=proposal.prefix if can_amend else (),
            is_retry=bool(denials),
            stdin=proposal.stdin,
            patch=proposal.patch,
            is_terminal=proposal.is_terminal,
            line=proposal.line,
            called=_called(proposal, launch),
        )

    def _key(self, proposal: Proposal, launch: Launch) -> Hashable:
        """Return all that an answer depends on: who runs what, where and with which permissions."""
        profile = None if launch.sandbox is None else repr(launch.sandbox.profile)
        return (
            self._executor.identity,
            launch.argv,
            None if launch.prepared is None else launch.prepared.arg0,
            launch.cwd,
            proposal.is_terminal,
            proposal.stdin,
            proposal.patch,
            profile,
        )


def _unsandboxed_words(proposal: Proposal, program: str) -> tuple[str, ...]:
    """Return what to start without a sandbox; `program` is where the path of a shell leads."""
    if proposal.shell_line is None:
        return proposal.command
    return unsandboxed_words(proposal.command[0], proposal.shell_line, program)


def _called(proposal: Proposal, launch: Launch) -> str | None:
    """Return the name that a program gets that the model chose, if it is not that of its file.

    Python loads what lies beside that name, and other programs do other things under other names.
    """
    if launch.prepared is None or proposal.line is not None:
        return None
    name = launch.prepared.arg0
    return None if name == launch.argv[0] else name


def _launch(
    proposal: Proposal, sandbox: Sandbox, changes: tuple[str, ...], widening: Widening | None = None
) -> Launch:
    return Launch(proposal.command, proposal.cwd, sandbox, changes, proposal.env, widening)


def _obstacle(launch: Launch, again: Launch | str) -> str | None:
    """Return why an attempt can't be made that somebody may have approved; None if it can.

    `again` is the same attempt, looked up again after the approval.
    """
    if launch.widening is None:
        return None
    if launch.widening.refusal is not None:
        return launch.widening.refusal
    now_widening = None if isinstance(again, str) else again.widening
    if now_widening is not None and launch.widening.covers(now_widening):
        return None
    now = () if isinstance(again, str) else again.changes
    gone = " ".join(change for change in launch.changes if change not in now)
    return f"its paths lead elsewhere than when somebody was asked ({gone}), so it was not done; call again"


_UNINTERCEPTED: Final = "No rule is checked against the programs that it executes."
_UNSANDBOXED: Final = "It runs without a sandbox, with all of the user's rights."
_READING: Final = "may read files of its user's before the command, which confined commands may have written."
_HIDING: Final = (
    "The profile hides files, so nothing runs without it, and what was missing is not known for certain."
)
_ADVICE: Final = (
    "If the task needs it, ask with sandbox_permissions: with_additional_permissions and the paths, or "
    "require_escalated."
)


def _reason(proposal: Proposal) -> str:
    verdict = proposal.verdict
    if proposal.doubt is not None:
        return f"a rule allows it, but {proposal.doubt}"
    if verdict is not None and verdict.action is Action.PROMPT:
        return verdict.reason
    match proposal.wish:
        case SandboxPermissions.REQUIRE_ESCALATED:
            return "it is to run without the sandbox"
        case SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS:
            return "it needs more than the profile grants"
        case SandboxPermissions.USE_DEFAULT:
            return "it removes files by force" if proposal.is_dangerous else "no rule allows it"


def _refusal(decision: ApprovalDecision) -> str:
    match decision.approval:
        case Approval.TIMED_OUT:
            return "not approved: nobody answered in time, which is not a refusal; you may ask again"
        case Approval.ABORT:
            return "refused, and you should stop and wait for the user"
        case _:
            return f"refused: {decision.reason}" if decision.reason else "refused"


def denial_note(denials: tuple[Denial, ...]) -> str:
    """Return what a model reads of denials."""
    named = [f"{denial.kind} {denial.target}" for denial in denials if denial.target is not None]
    what = ", ".join(dict.fromkeys(named)) or "something it did not name"
    return f"The sandbox denied: {what}."


def _together(one: Permissions, other: Permissions) -> Permissions:
    return Permissions(
        tuple(dict.fromkeys((*one.read, *other.read))),
        tuple(dict.fromkeys((*one.write, *other.write))),
        one.has_network or other.has_network,
        tuple(dict.fromkeys((*one.hosts, *other.hosts))),
    )

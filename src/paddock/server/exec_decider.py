"""Decides which programs one process may execute, for the thread that reads its calls.

A program that no rule is about runs at once, in that thread. The thread also carries out decisions of the
rules, and reports them to the session in the event loop. An execution that somebody must be asked about, or
that the audit log must record first, waits for the loop. This module reads an execution from a call
(`sandbox.denial`) in two steps: the first is enough to know that no rule is about it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from paddock.errors import AuditUnwritable
from paddock.host_text import local_text
from paddock.intercept.approvals import RememberedAnswers
from paddock.intercept.execution import Execution
from paddock.intercept.history import note_of
from paddock.intercept.trust import IsWritable
from paddock.intercept.verdict import Approval, ExecVerdict, Terms, escalation_refused, undone
from paddock.model.execution_note import ExecutionNote, ExecutionSummary
from paddock.model.verdict import Verdict
from paddock.protocol.intercept import InterceptParams
from paddock.sandbox.denial.exec_answer import (
    NOT_BEGUN,
    Deny,
    Escalate,
    ExecAnswer,
    ExecPolicy,
    Outcome,
    Run,
    Settle,
    Withdraw,
)
from paddock.sandbox.denial.exec_call import ExecCall, caller_of
from paddock.sandbox.denial.observation import restricts_reading
from paddock.sandbox.denial.writable_path import WritablePaths
from paddock.server.env_program import script_line, with_env_programs
from paddock.server.interception import Ask, Interception

if TYPE_CHECKING:
    from paddock.sandbox.plan.plan import Plan

KNOWN_PATHS: Final = 1024
"""Paths whose writability is remembered for rules about names. Nothing leaves the sandbox by this memory."""

UNTOLD_LIMIT: Final = 64
"""Verdicts that were carried out before the client has read of them. Further ones wait until it has."""

Tell = Callable[[ExecutionNote], None]
"""Called in the event loop with each verdict that is no plain run."""

WhenCaughtUp = Callable[[Callable[[], None]], None]
"""Calls back, in the event loop, when the client has read its notifications."""

Commit = Callable[[ExecutionNote], Awaitable[None]]
"""Records such a verdict, which is carried out afterwards. Raises AuditUnwritable."""


class ExecDecider:
    """Decides for one process, which its client started with the variables `environment`.

    `set_inside` are those that Paddock has set for its sandbox.
    `no_escalation` says why nothing may leave its sandbox, as far as that is known without its profile. Make
    it in the event loop.
    """

    def __init__(
        self,
        process_id: str,
        params: InterceptParams,
        environment: Mapping[str, str],
        *,
        set_inside: Mapping[str, str],
        no_escalation: str | None,
        session: RememberedAnswers,
        ask: Ask,
        tell: Tell,
        when_caught_up: WhenCaughtUp,
        commit: Commit | None,
    ) -> None:
        self._params = params
        self._environment = environment
        self._set_inside = set_inside
        self._no_escalation = no_escalation
        self._make = partial(Interception, process_id, params, session=session, ask=ask)
        self._tell = tell
        self._when_caught_up = when_caught_up
        self._commit = commit
        self._untold = threading.Semaphore(UNTOLD_LIMIT)
        self._loop = asyncio.get_running_loop()
        self._interceptions: list[Interception] = []
        self._ids = count(1)

    @property
    def is_strict(self) -> bool:
        """Return whether only programs that were decided on may run."""
        return self._params.strict

    def policy(self, plan: Plan) -> ExecPolicy:
        """Return the policy that decides under a plan. May be called from any thread, and again for
        another plan."""
        writable = WritablePaths(plan, map(local_text, self._params.distrusted_paths))
        no_escalation = self._no_escalation or escalation_refused(
            is_allowed=True, requires_sandbox=False, cap=None, denies_reads=restricts_reading(plan)
        )
        interception = self._make(
            terms=lambda: Terms(writable.now(), self._environment, self._set_inside, no_escalation)
        )
        known = lru_cache(KNOWN_PATHS)(lambda path: writable.now()(path))
        # The last plan is the one that the process runs under.
        self._interceptions = [interception]
        return ExecPolicy(
            partial(self._on_exec, interception, known, writable),
            self._params.strict,
            can_escalate=no_escalation is None,
        )

    def summary(self) -> ExecutionSummary | None:
        """Return a summary of the executions; None if there was no plan yet."""
        return self._interceptions[0].summary() if self._interceptions else None

    # --- in the thread that reads calls -------------------------------------

    def _on_exec(
        self,
        interception: Interception,
        known: IsWritable,
        writable: WritablePaths,
        call: ExecCall,
        settle: Settle,
    ) -> ExecAnswer | Withdraw:
        called = os.fsdecode(call.called)
        program = called if call.program is None else call.program.path
        # Most programs are of this kind, and their arguments may be long, so this does not read them.
        if interception.is_plain(program, called):
            return Run()
        execution = self._execution(call, program, called)
        if interception.plain_run(execution, known):
            return Run()
        execution = with_env_programs(_whole(execution, call), writable.now())
        found = interception.judge(execution)
        if isinstance(found, ExecVerdict) and self._commit is None and self._untold.acquire(blocking=False):
            done = partial(self._done, interception, execution, found, tell=self._tell_late)
            if found.verdict is not Verdict.ESCALATE:
                done(None)
            return _answer(found, done)
        decided = asyncio.run_coroutine_threadsafe(self._decided(interception, execution, found), self._loop)
        decided.add_done_callback(partial(_settled, settle))
        return partial(_cancel, decided)

    def _done(
        self,
        interception: Interception,
        execution: Execution,
        found: ExecVerdict,
        problem: str | None,
        *,
        tell: Tell | None = None,
    ) -> None:
        """Record and report a verdict that was carried out; with a `problem`, that the program was not let
        out after all."""
        if problem is not None:
            found = undone(found, f"it could not be let out of the sandbox: {problem}")
        interception.note(execution, found)
        note = note_of(execution, found)
        self._loop.call_soon_threadsafe(tell or self._tell, note)
        if problem is not None and self._commit is not None:
            # The log has the verdict already.
            asyncio.run_coroutine_threadsafe(self._recorded(note), self._loop)

    def _execution(self, call: ExecCall, program: str, called: str) -> Execution:
        return Execution(
            id=str(next(self._ids)),
            program=program,
            called=called,
            argv=tuple(map(os.fsdecode, call.argv)),
            cwd=os.fsdecode(call.cwd),
            is_genuine=call.program is not None and call.program.is_genuine,
        )

    # --- in the event loop --------------------------------------------------

    async def _decided(
        self, interception: Interception, execution: Execution, found: ExecVerdict | Approval
    ) -> ExecAnswer:
        if isinstance(found, Approval):
            found = await interception.settle(execution, found)
        is_outside = found.verdict is Verdict.ESCALATE
        note = note_of(execution, found)
        if self._commit is not None:
            try:
                # No word of a command that runs outside may be cut because of others; the log has its own
                # bounds.
                await self._commit(replace(note, argv=execution.argv) if is_outside else note)
            except AuditUnwritable as error:
                interception.note(execution, undone(found, str(error)))
                return Deny(f"Execution denied: {error}\n")
        done = partial(self._done, interception, execution, found)
        if not is_outside:
            interception.note(execution, found)
            self._tell(note)
        try:
            await self._caught_up()
        except asyncio.CancelledError:
            if is_outside:
                done(NOT_BEGUN)
            raise
        return _answer(found, done)

    async def _recorded(self, note: ExecutionNote) -> None:
        assert self._commit is not None
        # The log reports by itself that it can't be written, and nothing waits for this.
        with suppress(AuditUnwritable):
            await self._commit(note)

    def _tell_late(self, note: ExecutionNote) -> None:
        self._tell(note)
        self._when_caught_up(self._untold.release)

    async def _caught_up(self) -> None:
        """Wait until the client has read its notifications: a command must not pile up events for it."""
        waiting = self._loop.create_future()
        self._when_caught_up(lambda: None if waiting.done() else waiting.set_result(None))
        await waiting


def _answer(found: ExecVerdict, outcome: Outcome) -> ExecAnswer:
    match found.verdict:
        case Verdict.RUN:
            return Run()
        case Verdict.DENY:
            return Deny(found.message)
        case Verdict.ESCALATE:
            assert found.environment is not None
            variables = found.environment.variables
            words = tuple(os.fsencode(f"{name}={value}") for name, value in variables.items())
            return Escalate(words, outcome)


def _settled(settle: Settle, decided: Future[ExecAnswer]) -> None:
    if decided.cancelled():
        return
    error = decided.exception()
    settle(decided.result() if error is None else Deny("Execution denied: no decision could be made\n"))


def _cancel(decided: Future[ExecAnswer]) -> None:
    decided.cancel()


def _whole(execution: Execution, call: ExecCall) -> Execution:
    """Read what matters only for programs that a rule is about: variables, interpreters, the caller."""
    interpreters, is_whole = call.interpreters()
    return replace(
        execution,
        caller=caller_of(call.task),
        environment=dict(_variables(call)),
        interpreters=tuple(each.file.path for each in interpreters),
        script_lines=tuple(script_line(each.line) for each in interpreters),
        is_genuine=execution.is_genuine and is_whole and all(each.file.is_genuine for each in interpreters),
        is_executable=call.is_executable,
    )


def _variables(call: ExecCall) -> list[tuple[str, str]]:
    variables = []
    for text in map(os.fsdecode, call.environment()):
        name, equals, value = text.partition("=")
        # An entry without a name is no variable, and programs see the first of two with the same name.
        if equals and name:
            variables.append((name, value))
    return variables[::-1]

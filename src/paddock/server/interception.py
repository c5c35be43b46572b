"""Decides on the executions of one process: by its client's rules first, then by asking.

This is where `intercept`, `rules` and the session's questions meet. The caller of `decide` knows what an
execution is, and carries out the verdict.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from paddock.errors import InvalidParams, InvalidRule, QuestionError, TooManyQuestions
from paddock.excerpt import excerpt
from paddock.intercept.approvals import Approvals, RememberedAnswers
from paddock.intercept.execution import Execution, Subject
from paddock.intercept.history import History
from paddock.intercept.trust import IsWritable
from paddock.intercept.verdict import (
    Answer,
    Approval,
    ExecVerdict,
    NoAnswer,
    Terms,
    judge,
    plain_run,
    settle,
)
from paddock.model.decision import Origin, RuleMatch
from paddock.model.execution_note import ExecutionSummary
from paddock.model.verdict import Verdict
from paddock.protocol.bound import MAX_RULE_PROGRAMS
from paddock.protocol.intercept import InterceptParams, InterceptRule
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult, MatchedRule
from paddock.rpc.questions import ASKED_BYTES_LIMIT
from paddock.rules.declaration import check_free_flags
from paddock.rules.policy import Policy, Problem
from paddock.rules.rule import PrefixRule
from paddock.server import questions
from paddock.server.metrics import QuestionOutcome
from paddock.server.questions import Answerer, new_question_id

Ask = Callable[[str, ExecApprovalParams, float | None], Awaitable[questions.Answer]]
"""Asks the client of the session, as `SessionQuestions.ask` does."""

_NAMES: Final[dict[Answerer, str]] = {
    QuestionOutcome.CLIENT: "the client",
    QuestionOutcome.OPERATOR: "an operator",
}


class Interception:
    """The verdicts of one process. `aclose` it when the process has ended.

    `terms` returns the terms at the moment of a decision, and `session` holds the answers that outlive the
    process.
    """

    def __init__(
        self,
        process_id: str,
        params: InterceptParams,
        terms: Callable[[], Terms],
        session: RememberedAnswers,
        ask: Ask,
    ) -> None:
        self.history = History()
        """The verdicts on its executions."""
        self._lock = threading.Lock()
        self._process_id = process_id
        self._policy = policy_of(params)
        self._terms = terms
        self._asks = params.on_prompt == "ask"
        timeout_ms = params.prompt_timeout_ms
        self._timeout_s = None if timeout_ms is None else timeout_ms / 1000
        self._approvals = Approvals(session)
        self._ask = ask
        self._asking: dict[Subject, asyncio.Task[Answer | NoAnswer]] = {}
        self._escalating = asyncio.Lock()

    async def decide(self, execution: Execution) -> ExecVerdict:
        """Return the verdict on an execution, perhaps after asking somebody.

        Cancel the call when the execution is over. When no other execution waits for the same answer, this
        withdraws the question.
        """
        found = self.judge(execution)
        if isinstance(found, Approval):
            found = await self.settle(execution, found)
        self.note(execution, found)
        return found

    def is_plain(self, program: str, called: str) -> bool:
        """Note an execution of a program that no rule can be about, and return whether it is one.

        `program` and `called` are those of an `Execution`, of which nothing else need be known. May be called
        from any thread.
        """
        if self._policy.may_concern(program) or self._policy.may_concern(called):
            return False
        with self._lock:
            self.history.count_plain_run()
        return True

    def plain_run(self, execution: Execution, is_writable: IsWritable) -> bool:
        """Note an execution that no rule is about, and return whether it is one.

        May be called from any thread. Nothing leaves the sandbox by it, so `is_writable` may remember.
        """
        found = plain_run(execution, self._policy.decide, is_writable)
        if found is not None:
            self.note(execution, found)
        return found is not None

    def judge(self, execution: Execution) -> ExecVerdict | Approval:
        """Return the rules' verdict on an execution, or the approval it needs. Any thread may call this;
        it notes nothing."""
        terms = replace(self._terms(), asks=self._asks)
        found = judge(execution, self._policy.decide, terms)
        # This decides on questions that are too large to ask, because the event loop would encode all of one
        # to find out.
        if isinstance(found, Approval) and execution.size_bytes > ASKED_BYTES_LIMIT:
            too_large = NoAnswer(str(TooManyQuestions(f"{ASKED_BYTES_LIMIT} bytes")))
            return settle(execution, found, too_large, terms)
        return found

    async def settle(self, execution: Execution, approval: Approval) -> ExecVerdict:
        """Ask about an execution and return the verdict, as `decide` does."""
        answer = self._approvals.known(execution.subject) or await self._answer(execution, approval)
        if isinstance(answer, NoAnswer) or answer.verdict is not Verdict.ESCALATE:
            return settle(execution, approval, answer, self._terms())
        # The sandbox has chosen the variables, of which there may be hundreds of thousands. One at a time, so
        # that threads are left to others.
        async with self._escalating:
            return await asyncio.to_thread(lambda: settle(execution, approval, answer, self._terms()))

    def note(self, execution: Execution, verdict: ExecVerdict) -> None:
        """Note the verdict on an execution. Any thread may call this."""
        with self._lock:
            self.history.add(execution, verdict)

    def summary(self) -> ExecutionSummary:
        """Return a summary of its executions so far."""
        with self._lock:
            return self.history.summary()

    async def aclose(self) -> None:
        """Withdraw every question."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    # --- asking -------------------------------------------------------------

    async def _answer(self, execution: Execution, approval: Approval) -> Answer | NoAnswer:
        """Wait for an answer together with all executions of the same kind."""
        subject = execution.subject
        if self._approvals.wait(subject, execution.id):
            task = asyncio.get_running_loop().create_task(self._ask_once(execution, approval))
            self._asking[subject] = task
        else:
            task = self._asking[subject]
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if self._approvals.leave(subject, execution.id):
                task.cancel()
                self._asking.pop(subject, None)
            raise
        if task.cancelled():
            return NoAnswer("nobody can be asked any more")
        return task.result()

    async def _ask_once(self, execution: Execution, approval: Approval) -> Answer | NoAnswer:
        subject, answer = execution.subject, None
        try:
            said = await self._ask(EXEC_APPROVAL, self._question(execution, approval), self._timeout_s)
            result = said.result
            assert isinstance(result, ExecApprovalResult)
            answer = Answer(result.verdict, _NAMES[said.by], result.reason, result.remember)
            return answer
        except QuestionError as error:
            return NoAnswer(str(error))
        finally:
            # From now on the next execution of this kind asks again, or finds the remembered answer. If all
            # had stopped waiting, another may have asked already.
            if self._asking.get(subject) is asyncio.current_task():
                del self._asking[subject]
                self._approvals.settle(subject, answer)

    def _question(self, execution: Execution, approval: Approval) -> ExecApprovalParams:
        # The question is never cut: nobody can decide on what is not shown. One that is too large is not
        # asked, and the execution is denied.
        return ExecApprovalParams(
            question_id=new_question_id(),
            process_id=self._process_id,
            exec_id=execution.id,
            program=encodable(execution.program),
            argv=[encodable(word) for word in execution.argv],
            cwd=encodable(execution.cwd),
            matches=[_matched_rule(match) for match in approval.decision.matches],
            reason=encodable(approval.reason),
        )


def _matched_rule(match: RuleMatch) -> MatchedRule:
    return MatchedRule(
        prefix=[encodable(word) for word in match.prefix],
        action=match.action,
        path=encodable(match.origin.path),
        line=match.origin.line,
        justification=match.justification,
    )


def encodable(text: str) -> str:
    """Return text that JSON can carry; bytes that are not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- rules of the wire ------------------------------------------------------


def check_rules(params: InterceptParams) -> None:
    """Raise InvalidParams for rules that mean nothing, or are too many. `policy_of` takes longer."""
    programs = sum(len(rule.pattern[0]) for rule in params.rules)
    if programs > MAX_RULE_PROGRAMS:
        raise InvalidParams(
            f"params.intercept.rules: they name {programs} programs, which are more than {MAX_RULE_PROGRAMS}"
        )
    for path in params.distrusted_paths:
        if not path.startswith("/") or "\0" in path:
            raise InvalidParams(
                f"params.intercept.distrustedPaths: {excerpt(path)!r} is not an absolute path"
            )
    try:
        for rule in params.rules:
            for pattern in (rule.pattern, *rule.unless) if rule.free_flags else ():
                check_free_flags(tuple(map(tuple, pattern)))
    except InvalidRule as error:
        raise InvalidParams(f"params.intercept.rules: {error}") from error


def policy_of(params: InterceptParams) -> Policy:
    """Make a policy of the rules that a client sent, and that `check_rules` has found good."""
    return Policy(
        [made for rule in params.rules for made in _rules_of(rule)],
        {name: tuple(paths) for name, paths in params.host_executables.items()},
        problems=[Problem(path, "it could not be loaded") for path in params.broken_files],
    )


def _rules_of(rule: InterceptRule) -> list[PrefixRule]:
    """Make a rule for each program that may stand in the first place, as rules in files are made."""
    programs, *rest = (tuple(words) for words in rule.pattern)
    unless = tuple(tuple(tuple(words) for words in pattern) for pattern in rule.unless)
    return [
        PrefixRule(
            ((program,), *rest),
            rule.action,
            Origin(rule.path, rule.line),
            rule.justification,
            unless,
            rule.free_flags,
        )
        for program in programs
    ]

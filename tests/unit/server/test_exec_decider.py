"""Verdicts are told to a client that reads; for one that does not, executions wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from paddock.config import Settings
from paddock.errors import AuditUnwritable
from paddock.intercept.approvals import RememberedAnswers
from paddock.intercept.execution import Execution
from paddock.intercept.verdict import ExecVerdict, Ground
from paddock.model.execution_note import ExecutionNote
from paddock.model.profile import Limits, NetworkMode
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams
from paddock.sandbox.denial.exec_answer import NOT_BEGUN, Deny
from paddock.sandbox.plan.plan import Plan
from paddock.server.exec_decider import UNTOLD_LIMIT, ExecDecider
from paddock.server.metrics import Metrics
from paddock.server.questions import Answer
from paddock.server.sessions import SessionRegistry
from tests.sandbox.intercepted import rule, rules
from tests.unit.server.test_session_life import Client

NOTE = ExecutionNote("1", "/bin/x", ("x",), "/", Verdict.DENY, "because", None, None, None)


async def nobody(_: str, __: ExecApprovalParams, ___: float | None) -> Answer:
    raise AssertionError("nobody is to be asked")


Commit = Callable[[ExecutionNote], Awaitable[None]]


def decider_of(
    told: list[ExecutionNote],
    when_caught_up: Callable[[Callable[[], None]], None],
    commit: Commit | None = None,
) -> ExecDecider:
    return ExecDecider(
        "p",
        rules(rule("forbidden", "x")),
        {},
        set_inside={},
        no_escalation=None,
        session=RememberedAnswers(),
        ask=nobody,
        tell=told.append,
        when_caught_up=when_caught_up,
        commit=commit,
    )


async def test_what_a_client_has_not_read_is_bounded() -> None:
    told: list[ExecutionNote] = []
    behind: list[Callable[[], None]] = []
    decider = decider_of(told, behind.append)
    while decider._untold.acquire(blocking=False):
        decider._tell_late(NOTE)
    assert len(told) == len(behind) == UNTOLD_LIMIT
    waiting = asyncio.create_task(decider._caught_up())
    await asyncio.sleep(0)
    assert not waiting.done()
    for callback in behind:
        callback()
    await waiting
    assert decider._untold.acquire(blocking=False)


@pytest.mark.parametrize("how", ["resume_output", "detach"])
async def test_a_session_tells_when_its_client_has_caught_up(how: str) -> None:
    registry = SessionRegistry(Settings(), Metrics())
    session = registry.open(Client())
    told: list[int] = []
    session.when_caught_up(lambda: told.append(1))
    session.pause_output()
    session.when_caught_up(lambda: told.append(2))
    assert told == [1]
    getattr(session, how)()
    session.when_caught_up(lambda: told.append(3))
    assert told == [1, 2, 3]
    await registry.end_all(0)


PLAN = Plan((), (), (), NetworkMode.ENABLED, Limits(), "/", has_proc=True)
OUTSIDE = ExecVerdict(Verdict.ESCALATE, Ground.RULE, "a rule lets it out")
EXECUTION = Execution(id="1", program="/bin/x", called="/bin/x", argv=("x",), cwd="/")


async def test_nothing_runs_that_the_audit_log_can_not_tell() -> None:
    async def fail(_: ExecutionNote) -> None:
        raise AuditUnwritable("No space left on device")

    told: list[ExecutionNote] = []
    decider = decider_of(told, lambda callback: callback(), fail)
    decider.policy(PLAN)
    (interception,) = decider._interceptions
    answer = await decider._decided(interception, EXECUTION, OUTSIDE)
    assert isinstance(answer, Deny)
    assert "No space left on device" in answer.message
    assert told == []


async def test_program_whose_caller_ends_before_it_is_let_out_is_told_not_to_have_begun() -> None:
    told: list[ExecutionNote] = []
    is_waiting = asyncio.Event()
    decider = decider_of(told, lambda _: is_waiting.set())
    decider.policy(PLAN)
    (interception,) = decider._interceptions
    deciding = asyncio.create_task(decider._decided(interception, EXECUTION, OUTSIDE))
    await is_waiting.wait()
    deciding.cancel()
    await asyncio.wait([deciding])
    await asyncio.sleep(0)
    assert deciding.cancelled()
    (note,) = told
    assert note.verdict is Verdict.DENY
    assert NOT_BEGUN in note.reason

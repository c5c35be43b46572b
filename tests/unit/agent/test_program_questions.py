"""Questions about one program of a running command, on a fake executor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest
from msgspec import structs

import paddock
from paddock.agent.fake_executor import FakeCommand, FakeExecutor
from paddock.agent.program_question import program_question
from paddock.agent.question_text import question_lines
from paddock.client.ending import Ending
from paddock.model.decision import Action, Origin
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult, MatchedRule
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from tests.unit.agent.scene import Answers, called

MATCH = MatchedRule(prefix=["curl"], action=Action.PROMPT, path="team.rules", line=3)
QUESTION = ExecApprovalParams(
    question_id="q1",
    process_id="p",
    exec_id="e",
    program="/usr/bin/curl",
    argv=["curl", "https://example.org"],
    cwd="/work/sub",
    matches=[MATCH],
    reason="`curl` requires approval by team.rules:3",
)


def rules(action: Action = Action.PROMPT) -> Policy:
    return Policy([PrefixRule((("curl",),), action, Origin("team.rules", 3))])


class Asking:
    """Commands that execute one program, and end with 0 if it may run."""

    def __init__(self, *questions: ExecApprovalParams) -> None:
        self._questions = iter(questions) if questions else repeat(QUESTION)
        self.results: list[ExecApprovalResult] = []
        self._tasks: list[asyncio.Task[None]] = []

    def __call__(self, command: FakeCommand) -> None:
        self._tasks.append(asyncio.create_task(self._run(command)))

    async def _run(self, command: FakeCommand) -> None:
        result = await command.ask(next(self._questions))
        self.results.append(result)
        command.end(0 if result.verdict is Verdict.ESCALATE else 1)


async def test_prompt_is_about_the_one_program_and_a_yes_lets_it_out() -> None:
    asking, answers = Asking(), Answers("approved")
    executor = FakeExecutor(asking)
    async with paddock.Agent(executor, rules=rules(), approver=answers, allow_escalation=True) as tools:
        events = tools.events()
        reply = await called(tools, "exec_command", cmd="make && curl https://example.org")
    assert reply.exit_code == 0
    # The line itself was not asked about, and runs in the sandbox.
    [request] = answers.requests
    assert request.command == ("/usr/bin/curl", "https://example.org")
    assert (request.cwd, request.rule, request.is_program) == ("/work/sub", "team.rules:3", True)
    assert request.proposed_prefix == ()
    assert executor.started[0].command.sandbox is not None
    assert asking.results == [ExecApprovalResult(verdict=Verdict.ESCALATE)]
    asked = [event async for event in events if isinstance(event, paddock.ApprovalAsked)]
    assert [event.command for event in asked] == [request.command]


async def test_rules_go_with_every_confined_start_and_with_no_other() -> None:
    executor = FakeExecutor(lambda command: command.end(0))
    async with paddock.Agent(
        executor, rules=rules(), approver=Answers("approved"), allow_escalation=True
    ) as tools:
        await called(tools, "exec_command", cmd="make")
        await called(tools, "exec_command", cmd="make", sandbox_permissions="require_escalated")
    inside, outside = (started.command.programs for started in executor.started)
    assert inside is not None
    assert [rule.pattern for rule in inside.params.rules] == [[["curl"]]]
    assert inside.params.on_prompt == "ask"
    assert outside is None


async def test_line_that_leaves_the_sandbox_is_asked_about_as_a_whole() -> None:
    executor, answers = FakeExecutor(lambda command: command.end(0)), Answers("approved")
    async with paddock.Agent(executor, rules=rules(), approver=answers, allow_escalation=True) as tools:
        await called(tools, "exec_command", cmd="curl x", sandbox_permissions="require_escalated")
    assert [request.is_program for request in answers.requests] == [False]


@pytest.mark.parametrize(("policy", "questions"), [("on-failure", 1), ("on-request", 0)])
async def test_allowed_command_does_not_leave_its_rules_behind_without_a_question(
    policy: str, questions: int
) -> None:
    vague = Ending(1, sandbox_denied=True)
    executor, answers = FakeExecutor(lambda command: command.end(vague)), Answers("denied")
    async with paddock.Agent(
        executor,
        rules=rules(Action.ALLOW),
        approver=answers,
        approval_policy=policy,
        allow_escalation=True,
    ) as tools:
        await called(tools, "exec_command", cmd="curl x")
    assert len(answers.requests) == questions
    assert len(executor.started) == 1
    assert all("No rule is checked" in request.changes[1] for request in answers.requests)


async def test_model_is_not_let_out_of_the_sandbox_by_a_rule_about_the_line_alone() -> None:
    executor, answers = FakeExecutor(lambda command: command.end(0)), Answers("denied")
    async with paddock.Agent(
        executor, rules=rules(Action.ALLOW), approver=answers, allow_escalation=True
    ) as tools:
        reply = await tools.call(
            "exec_command", {"cmd": "curl x", "sandbox_permissions": "require_escalated"}
        )
    assert reply.is_error
    assert len(answers.requests) == 1


async def test_forbidden_program_keeps_a_line_from_starting() -> None:
    executor = FakeExecutor()
    async with paddock.Agent(executor, rules=rules(Action.FORBIDDEN), allow_escalation=True) as tools:
        reply = await tools.call("exec_command", {"cmd": "make && curl x"})
    assert reply.is_error
    assert executor.started == []


@pytest.mark.parametrize("policy", ["never", paddock.Granular(sandbox_approval=True, rules=False)])
async def test_executor_denies_where_nobody_may_be_asked(policy: str | paddock.Granular) -> None:
    executor = FakeExecutor(lambda command: command.end(1))
    async with paddock.Agent(executor, rules=rules(), approval_policy=policy, allow_escalation=True) as tools:
        await called(tools, "exec_command", cmd="curl x")
    programs = executor.started[0].command.programs
    assert programs is not None
    assert programs.params.on_prompt == "deny"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (paddock.ApprovalDecision(paddock.Approval.DENIED, "no downloads"), "refused: no downloads"),
        ("timed_out", "not a refusal"),
        ("abort", "stop and wait"),
        ("perhaps", "the approver failed"),
    ],
)
async def test_program_that_nobody_approves_is_denied_with_the_reason(
    answer: str | paddock.ApprovalDecision, told: str
) -> None:
    asking = Asking()
    async with paddock.Agent(
        FakeExecutor(asking), rules=rules(), approver=Answers(answer), allow_escalation=True
    ) as tools:
        reply = await called(tools, "exec_command", cmd="curl x")
    [result] = asking.results
    assert (reply.exit_code, result.verdict) == (1, Verdict.DENY)
    assert told in (result.reason or "")


async def test_answer_for_the_session_is_not_asked_for_again() -> None:
    asking, answers = Asking(), Answers("approved_for_session")
    async with paddock.Agent(
        FakeExecutor(asking), rules=rules(), approver=answers, allow_escalation=True
    ) as tools:
        for _ in range(2):
            assert (await called(tools, "exec_command", cmd="curl x")).exit_code == 0
    assert len(answers.requests) == 1


@pytest.mark.parametrize("wait_for", [None, {"idle_ms": 300}])
async def test_yield_time_stands_still_while_somebody_is_asked(wait_for: dict[str, object] | None) -> None:
    def late(then: Callable[[], object]) -> None:
        # Far behind the 250 ms after which the call would return otherwise.
        asyncio.get_running_loop().call_later(0.6, then)

    async def slow(request: paddock.ApprovalRequest) -> str:
        answered = asyncio.Event()
        late(answered.set)
        await answered.wait()
        return "approved"

    async with paddock.Agent(
        FakeExecutor(Asking()), rules=rules(), approver=slow, allow_escalation=True
    ) as tools:
        arguments = {"cmd": "curl x", "yield_time_ms": 250, "wait_for": wait_for}
        reply = await called(tools, "exec_command", **arguments)
    assert (reply.exit_code, reply.session_id) == (0, None)


async def test_escalation_needs_rules_and_an_executor_that_intercepts() -> None:
    with pytest.raises(ValueError, match="give rules too"):
        paddock.Agent(FakeExecutor(), allow_escalation=True)

    class Plain(FakeExecutor):
        intercepts = False

    with pytest.raises(ValueError, match="an executor that decides on each program"):
        async with paddock.Agent(Plain(), rules=rules(), allow_escalation=True):
            pass


@pytest.mark.parametrize(
    ("other", "asked"),
    [
        ({}, 1),
        ({"argv": ["rcurl", "https://example.org"]}, 2),
        ({"argv": ["/usr/bin/curl", "https://example.org"]}, 2),
        ({"cwd": "/work"}, 2),
        ({"program": "/bin/curl"}, 2),
    ],
)
async def test_answer_for_the_session_holds_for_the_same_program_under_the_same_name(
    other: dict[str, Any], asked: int
) -> None:
    answers = Answers(*["approved_for_session"] * 2)
    executor = FakeExecutor(Asking(QUESTION, structs.replace(QUESTION, **other)))
    async with paddock.Agent(executor, rules=rules(), approver=answers, allow_escalation=True) as tools:
        for _ in range(2):
            assert (await called(tools, "exec_command", cmd="make")).exit_code == 0
    assert len(answers.requests) == asked


async def test_question_whose_words_stand_for_others_is_asked_every_time() -> None:
    unclear = structs.replace(QUESTION, argv=["curl", "\ufffd"])
    answers = Answers(*["approved_for_session"] * 2)
    executor = FakeExecutor(Asking(unclear, unclear))
    async with paddock.Agent(executor, rules=rules(), approver=answers, allow_escalation=True) as tools:
        for _ in range(2):
            assert (await called(tools, "exec_command", cmd="make")).exit_code == 0
    assert len(answers.requests) == 2
    assert paddock.Approval.APPROVED_FOR_SESSION not in answers.requests[0].available
    assert any("can't be shown" in line for line in question_lines(answers.requests[0]))


@pytest.mark.parametrize(
    ("argv", "name", "shown"),
    [
        (["curl"], None, None),
        (["/usr/bin/curl"], None, None),
        (["rm", "x"], "rm", "rm"),
        ([], "", "''"),
        (["a\\nb"], "a\\nb", "'a\\nb'"),
        (["a\nb"], "a\nb", "$'a\\nb'"),
    ],
)
def test_question_shows_the_name_that_a_program_would_see(
    argv: list[str], name: str | None, shown: str | None
) -> None:
    request = program_question("c", None, structs.replace(QUESTION, argv=argv))
    assert request.called == name
    called = [line for line in question_lines(request) if line.startswith("  called:")]
    assert called == ([] if shown is None else [f"  called:    {shown}"])

"""An approver that is answered over a socket."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

import paddock
from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest
from paddock.agent.console import ask_console
from paddock.agent.console_message import (
    Accepted,
    AnswerQuestion,
    ConsoleRequest,
    ListQuestions,
    Questions,
    Refused,
)
from paddock.agent.fake_executor import FakeExecutor
from paddock.model.denial import Denial, DenialKind
from paddock.transport.runtime_directory import VARIABLE, console_paths, socket_paths
from tests.unit.agent.scene import Answers, called, saying


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # Short: a socket's path has 107 bytes at most.
    with TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        monkeypatch.setenv(VARIABLE, directory)
        yield Path(directory)


def request(name: str = "a", prefix: tuple[str, ...] = ()) -> ApprovalRequest:
    return ApprovalRequest(
        approval_id=name,
        call_id="c",
        tool="exec_command",
        command=("/bin/sh", "-c", "x"),
        cwd="/work",
        reason="no rule allows it",
        changes=("It runs.",),
        denials=(Denial(DenialKind.WRITE, "/x", None, True),),
        proposed_prefix=prefix,
    )


async def asked(path: Path) -> Questions:
    """The questions, once there is one."""
    while True:
        found = await ask_console(path, ListQuestions())
        assert isinstance(found, Questions)
        if found.questions:
            return found


def answer(approval: Approval, name: str = "a", reason: str | None = None) -> AnswerQuestion:
    return AnswerQuestion(approval_id=name, approval=approval, reason=reason)


async def test_question_is_listed_as_it_was_asked_and_answered_once(runtime: Path) -> None:
    async with paddock.ConsoleApprover() as ask:
        [path] = console_paths(runtime)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        # No server, and not to be taken for one.
        assert socket_paths(runtime) == []
        waiting = asyncio.create_task(ask(request()))
        [question] = (await asked(path)).questions
        assert question.request == request()
        assert await ask_console(path, answer(Approval.DENIED, reason="not now")) == Accepted()
        assert await waiting == ApprovalDecision(Approval.DENIED, "not now")
        late = await ask_console(path, answer(Approval.APPROVED))
        assert late == Refused(problem="it was answered already: denied")
    assert console_paths(runtime) == []


async def test_question_that_is_withdrawn_can_not_be_answered(runtime: Path) -> None:
    async with paddock.ConsoleApprover() as ask:
        [path] = console_paths(runtime)
        waiting = asyncio.create_task(ask(request()))
        await asked(path)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await ask_console(path, answer(Approval.APPROVED)) == Refused(problem="it was withdrawn")
        unknown = await ask_console(path, answer(Approval.APPROVED, "other"))
        assert unknown == Refused(problem="there is no such question")


async def test_answer_that_was_not_offered_does_not_count(runtime: Path) -> None:
    async with paddock.ConsoleApprover() as ask:
        [path] = console_paths(runtime)
        waiting = asyncio.create_task(ask(request()))
        await asked(path)
        for approval in (Approval.APPROVED_ALWAYS, Approval.TIMED_OUT):
            assert isinstance(await ask_console(path, answer(approval)), Refused)
        assert await ask_console(path, answer(Approval.APPROVED)) == Accepted()
        assert (await waiting).approval is Approval.APPROVED


class Unknown(msgspec.Struct, frozen=True, tag="answer"):
    """An answer with a member that means nothing."""

    approval_id: str = "a"
    approval: str = "approved"
    also: str = "everything"


async def test_message_without_a_meaning_allows_nothing(runtime: Path) -> None:
    async with paddock.ConsoleApprover() as ask:
        [path] = console_paths(runtime)
        waiting = asyncio.create_task(ask(request()))
        await asked(path)
        unknown: ConsoleRequest = Unknown()  # type: ignore[assignment]
        assert isinstance(await ask_console(path, unknown), Refused)
        assert not waiting.done()
        await ask_console(path, answer(Approval.ABORT))
        assert (await waiting).approval is Approval.ABORT


async def test_timeout_of_the_agent_withdraws_the_question(runtime: Path) -> None:
    executor = FakeExecutor(saying(0))
    async with (
        paddock.ConsoleApprover() as ask,
        paddock.Agent(executor, approver=ask, approval_policy="untrusted", approval_timeout_s=0.01) as tools,
    ):
        reply = await tools.call("exec_command", {"cmd": "make"})
        [path] = console_paths(runtime)
        told = await ask_console(path, ListQuestions())
        assert isinstance(told, Questions)
        assert (told.pid, told.questions) == (_pid(path), [])
        assert [closed.outcome for closed in told.closed] == ["it was withdrawn"]
    assert "not a refusal" in reply.text


def _pid(path: Path) -> int:
    return int(path.name.split("-")[0])


async def test_first_of_several_approvers_decides_and_the_others_are_cancelled(runtime: Path) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    async with paddock.ConsoleApprover() as ask:
        async with paddock.Agent(
            executor, approver=paddock.first_of(ask, answers), approval_policy="untrusted"
        ) as tools:
            reply = await called(tools, "exec_command", cmd="make")
        [path] = console_paths(runtime)
        late = await ask_console(path, answer(Approval.DENIED, answers.requests[0].approval_id))
    assert reply.exit_code == 0
    assert late == Refused(problem="it was answered already: approved")


async def test_approver_that_fails_leaves_the_decision_to_the_others() -> None:
    async def broken(request: ApprovalRequest) -> str:
        raise RuntimeError("broken")

    assert await paddock.first_of(broken, Answers("denied"))(request()) == "denied"
    with pytest.raises(RuntimeError, match="broken"):
        await paddock.first_of(broken, broken)(request())

"""`paddock approve` beside an agent with a question."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import paddock
from paddock.agent.console import ask_console
from paddock.agent.console_message import ListQuestions, Questions
from paddock.agent.fake_executor import FakeExecutor
from paddock.agent.reply import Reply
from paddock.rules.policy import Policy
from paddock.transport.runtime_directory import VARIABLE, console_paths
from tests.operators import Operator


@asynccontextmanager
async def asking(operator: Operator, cmd: str) -> AsyncIterator[tuple[asyncio.Task[Reply], str]]:
    """An agent that waits for an answer, and the id of its question."""
    executor = FakeExecutor(lambda command: command.end(0))
    async with (
        paddock.ConsoleApprover() as ask,
        paddock.Agent(executor, approver=ask, approval_policy="untrusted", rules=Policy()) as tools,
    ):
        call = asyncio.create_task(tools.call("exec_command", {"cmd": cmd}))
        [path] = console_paths(operator.runtime)
        while True:
            found = await ask_console(path, ListQuestions())
            assert isinstance(found, Questions)
            if found.questions:
                break
        try:
            yield call, found.questions[0].request.approval_id
        finally:
            call.cancel()


@pytest.fixture(autouse=True)
def same_runtime(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(operator.runtime))


async def test_question_is_listed_shown_and_answered(operator: Operator) -> None:
    async with asking(operator, "make\n  yes means: nothing") as (call, question_id):
        listed = await asyncio.to_thread(operator.output, "approve")
        assert listed == f"{question_id[:8]}  /bin/sh -c $'make\\n  yes means: nothing' in /work\n"
        shown = await asyncio.to_thread(operator.output, "approve", question_id[:8])
        assert "    because:   no rule allows it\n" in shown
        assert shown.count("\n    yes means: ") == 1
        assert shown.endswith(
            f"  answer: paddock approve {question_id[:8]} --once, --session, or --decline REASON\n\n"
        )
        await asyncio.to_thread(operator.output, "approve", question_id[:8], "--once")
        assert not (await call).is_error
        done = await asyncio.to_thread(operator.paddock, "approve", question_id, "--once")
        assert done.returncode == 1
        assert b"it was answered already: approved" in done.stderr
    assert await asyncio.to_thread(operator.output, "approve") == "nothing waits for an answer\n"


async def test_whoever_watches_sees_a_question_come_and_what_was_answered(operator: Operator) -> None:
    with operator.terminal("approve", "--watch") as screen:
        async with asking(operator, "make \x1b[2J\u202e") as (call, question_id):
            short = question_id[:8]
            shown = await asyncio.to_thread(screen.read_until, b"or --decline REASON")
            assert f"{short}  from an agent, pid {os.getpid()}".encode() in shown
            assert rb"$'make \x1b[2J\u202e'" in shown
            assert b"\x1b[2J" not in shown
            await asyncio.to_thread(operator.output, "approve", short, "--decline", "not now")
            assert (await call).is_error
            told = f"{short}  no longer needs an answer: it was answered already: denied"
            await asyncio.to_thread(screen.read_until, told.encode())
        screen.type(b"\x03")
        assert await asyncio.to_thread(screen.wait) == 130


async def test_reason_of_a_refusal_reaches_the_model(operator: Operator) -> None:
    async with asking(operator, "make") as (call, question_id):
        await asyncio.to_thread(operator.output, "approve", question_id, "--decline", "use a branch")
        reply = await call
    assert reply.is_error
    assert "use a branch" in reply.text


@pytest.mark.parametrize(("cmd", "is_offered"), [("git status", True), ("bash x.sh", False)])
async def test_always_counts_only_where_a_rule_may_be_made(
    operator: Operator, cmd: str, is_offered: bool
) -> None:
    async with asking(operator, cmd) as (call, question_id):
        done = await asyncio.to_thread(operator.paddock, "approve", question_id, "--always")
        assert (done.returncode == 0) == is_offered
        if is_offered:
            assert not (await call).is_error
        else:
            assert b"is not an answer to this question" in done.stderr
            assert not call.done()


def test_answer_without_a_question_is_a_wrong_command_line(operator: Operator) -> None:
    assert operator.paddock("approve", "--once").returncode == 2

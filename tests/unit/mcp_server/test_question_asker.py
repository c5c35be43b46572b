"""Who is asked, how often, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest
from paddock.mcp_server.pending_call import PendingCall
from paddock.mcp_server.question_asker import NO_PROMPT, QuestionAsker


def request(name: str, program: str = "git") -> ApprovalRequest:
    return ApprovalRequest(
        approval_id=name,
        call_id=name,
        tool="shell",
        command=(program, "init"),
        cwd="/work",
        reason="a rule wants it",
        changes=("It runs.",),
    )


def a_call(*, no_prompt: str | None = None) -> PendingCall:
    return PendingCall("shell", no_prompt=no_prompt)


YES = ApprovalDecision(Approval.APPROVED)


async def asked(call: PendingCall) -> str:
    """The id of the question that a call puts to its client."""
    [question] = await call.settled_or_asking()
    return question.id


async def test_two_equal_questions_are_asked_once_and_one_answer_counts_for_both() -> None:
    asker, first, second = QuestionAsker(60), a_call(), a_call()
    asking = [
        asyncio.create_task(asker.ask(first, request("a"))),
        asyncio.create_task(asker.ask(second, request("b"))),
    ]
    first.answer(await asked(first), YES)
    assert await asyncio.gather(*asking) == [YES, YES]
    assert second.questions == []


async def test_other_question_is_asked_on_its_own() -> None:
    asker, first, second = QuestionAsker(60), a_call(), a_call()
    asking = [
        asyncio.create_task(asker.ask(first, request("a"))),
        asyncio.create_task(asker.ask(second, request("b", "rm"))),
    ]
    first.answer(await asked(first), YES)
    no = ApprovalDecision(Approval.DENIED)
    second.answer(await asked(second), no)
    assert await asyncio.gather(*asking) == [YES, no]


@pytest.mark.parametrize(
    "change",
    [
        {"called": "rm"},
        {"stdin": "x"},
        {"patch": "x"},
        {"is_terminal": True},
        {"is_unsandboxed": True},
        {"is_exact": False},
        {"proposed_prefix": ("git",)},
    ],
)
async def test_question_that_only_looks_alike_is_asked_on_its_own(change: dict[str, Any]) -> None:
    asker, first, second = QuestionAsker(60), a_call(), a_call()
    asking = [
        asyncio.create_task(asker.ask(first, request("a"))),
        asyncio.create_task(asker.ask(second, replace(request("b"), **change))),
    ]
    first.answer(await asked(first), YES)
    no = ApprovalDecision(Approval.DENIED)
    second.answer(await asked(second), no)
    assert await asyncio.gather(*asking) == [YES, no]


async def test_call_asks_itself_when_the_one_that_asked_first_is_cancelled() -> None:
    asker, first, second = QuestionAsker(60), a_call(), a_call()
    leading = asyncio.create_task(asker.ask(first, request("a")))
    await asked(first)
    following = asyncio.create_task(asker.ask(second, request("b")))
    await asyncio.sleep(0)
    leading.cancel()
    second.answer(await asked(second), YES)
    assert await following == YES
    assert leading.cancelled()
    assert first.questions == []


async def test_no_answer_in_time_is_told_apart_from_a_refusal() -> None:
    decision = await QuestionAsker(0.01).ask(a_call(), request("a"))
    assert decision.approval is Approval.TIMED_OUT
    assert decision.reason is not None
    assert "timed out" in decision.reason


async def test_client_that_cannot_be_asked_gets_the_way_out_at_once() -> None:
    decision = await QuestionAsker(60).ask(a_call(no_prompt=NO_PROMPT), request("a"))
    assert (decision.approval, decision.reason) == (Approval.DENIED, NO_PROMPT)


async def test_console_is_asked_in_place_of_the_client() -> None:
    async def console(request: ApprovalRequest) -> str:
        return "approved_for_session"

    decision = await QuestionAsker(60, console).ask(a_call(no_prompt=NO_PROMPT), request("a"))
    assert decision.approval is Approval.APPROVED_FOR_SESSION

"""Approvers that are ready to use."""

from __future__ import annotations

import asyncio
import io
import os
import pty
from collections.abc import Iterator
from typing import Any, TextIO

import pytest
from msgspec.structs import replace

import paddock
from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest, decision_of


def request(line: str = "make test", prefix: tuple[str, ...] = ()) -> ApprovalRequest:
    return ApprovalRequest(
        approval_id="a",
        call_id="c",
        tool="exec_command",
        command=("/bin/sh", "-c", line),
        line=line,
        cwd="/work",
        reason="no rule allows it",
        changes=("It runs.",),
        proposed_prefix=prefix,
    )


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    read, write = os.pipe()
    with open(read, encoding="utf-8") as answers:
        yield answers, write
    os.close(write)


@pytest.mark.parametrize(
    ("typed", "approval", "reason"),
    [
        ("y\n", Approval.APPROVED, None),
        ("YES\n", Approval.APPROVED, None),
        ("s\n", Approval.APPROVED_FOR_SESSION, None),
        ("a\n", Approval.APPROVED_ALWAYS, None),
        ("n\n", Approval.DENIED, "the user said no"),
        ("n not now\n", Approval.DENIED, "not now"),
        ("\n", Approval.DENIED, "the user said no"),
        ("yy\n", Approval.DENIED, "the user said no"),
    ],
)
async def test_terminal_takes_nothing_but_a_clear_yes_for_one(
    terminal: tuple[TextIO, int], typed: str, approval: Approval, reason: str | None
) -> None:
    answers, write = terminal
    shown = io.StringIO()
    ask = paddock.TerminalApprover(answers, shown)
    os.write(write, typed.encode())
    decision = decision_of(await ask(request(prefix=("make", "test"))))
    assert (decision.approval, decision.reason) == (approval, reason)
    assert "always:    a rule allows `make test …` from now on." in shown.getvalue()


async def test_terminal_does_not_take_always_for_an_answer_that_was_not_offered(
    terminal: tuple[TextIO, int],
) -> None:
    answers, write = terminal
    os.write(write, b"a\n")
    decision = decision_of(await paddock.TerminalApprover(answers, io.StringIO())(request()))
    assert decision.approval is Approval.DENIED


async def test_what_was_typed_before_the_question_is_no_answer() -> None:
    controlling, terminal = pty.openpty()
    with os.fdopen(terminal, encoding="utf-8") as answers:
        os.write(controlling, b"y\n")
        shown = io.StringIO()
        asking = asyncio.create_task(_answer(answers, shown))
        done, _ = await asyncio.wait((asking,), timeout=0.05)
        assert not done
        os.write(controlling, b"n\n")
        assert (await asking).approval is Approval.DENIED
    os.close(controlling)


async def _answer(answers: TextIO, shown: TextIO) -> ApprovalDecision:
    return decision_of(await paddock.TerminalApprover(answers, shown)(request()))


async def test_terminal_asks_one_question_at_a_time(terminal: tuple[TextIO, int]) -> None:
    answers, write = terminal
    ask = paddock.TerminalApprover(answers, io.StringIO())
    os.write(write, b"y\nn\ny\n")
    decisions = await asyncio.gather(*(ask(request(line)) for line in ("one", "two", "three")))
    assert [decision_of(each).approval for each in decisions] == ["approved", "denied", "approved"]


async def test_terminal_is_told_that_somebody_else_was_first(terminal: tuple[TextIO, int]) -> None:
    answers, _ = terminal
    shown = io.StringIO()

    async def other(request: ApprovalRequest) -> str:
        return "denied"

    decide = paddock.first_of(paddock.TerminalApprover(answers, shown), other)
    assert decision_of(await decide(request())).approval is Approval.DENIED
    assert shown.getvalue().endswith("\nThe question is over: it was answered already: denied.\n\n")


@pytest.fixture
def nothing() -> Iterator[TextIO]:
    with open(os.devnull, encoding="utf-8") as file:
        yield file


async def test_end_of_input_is_a_no(nothing: TextIO) -> None:
    decision = decision_of(await paddock.TerminalApprover(nothing, io.StringIO())(request()))
    assert decision.approval is Approval.DENIED


@pytest.mark.parametrize("line", ["git status", "git  'status'"])
async def test_allow_list_approves_its_commands(line: str) -> None:
    decide = paddock.allow_list([["git", "status"]])
    assert decision_of(await decide(request(line))).approval is Approval.APPROVED


@pytest.mark.parametrize(
    "line",
    [
        "git status -s",
        "git",
        "git status; rm x",
        "git status & rm x",
        "git status\nrm x",
        "git status > x",
        "git $(rm x)",
        "git `rm x`",
        "X=1 git status",
        "git 'status",
        "git\fstatus",
        "git\\\tstatus",
        "",
    ],
)
async def test_allow_list_approves_nothing_else(line: str) -> None:
    decide = paddock.allow_list([["git", "status"], [], ["git", "$(rm", "x)"]])
    assert decision_of(await decide(request(line))).approval is Approval.DENIED


@pytest.mark.parametrize(
    "change",
    [{"line": None, "command": ("/work/evil", "-c", "git status")}, {"stdin": "x"}, {"is_terminal": True}],
)
async def test_allow_list_approves_no_other_shell_and_no_input(change: dict[str, Any]) -> None:
    decide = paddock.allow_list([["git", "status"]])
    assert decision_of(await decide(replace(request("git status"), **change))).approval is Approval.DENIED


async def test_deny_all_denies() -> None:
    assert decision_of(await paddock.deny_all(request())).approval is Approval.DENIED


def test_answer_is_a_word_or_a_decision() -> None:
    decision = ApprovalDecision(Approval.ABORT)
    assert decision_of(decision) is decision
    assert decision_of("approved").approval is Approval.APPROVED
    with pytest.raises(ValueError, match="maybe"):
        decision_of("maybe")

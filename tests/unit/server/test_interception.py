"""What one process executes is judged without the event loop, as far as that can be."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import paddock
from paddock.intercept.approvals import RememberedAnswers
from paddock.intercept.execution import Execution
from paddock.intercept.verdict import Approval, ExecVerdict, Terms
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from paddock.rpc.questions import ASKED_BYTES_LIMIT
from paddock.server.interception import Interception
from paddock.server.metrics import QuestionOutcome
from paddock.server.questions import Answer
from tests.sandbox.intercepted import rule, rules


async def nobody(_: str, __: ExecApprovalParams, ___: float | None) -> Answer:
    raise AssertionError("nobody is to be asked")


def interception_of(*given: paddock.InterceptRule, **more: Any) -> Interception:
    terms = Terms(lambda _: False, {})
    return Interception("p", rules(*given, **more), lambda: terms, RememberedAnswers(), nobody)


def judged(*words: str) -> ExecVerdict | Approval:
    interception = interception_of(rule("prompt", "uname"), on_prompt="ask")
    program = "/usr/bin/uname"
    return interception.judge(Execution("1", program, program, ("uname", *words), "/"))


@pytest.mark.parametrize(
    "words", [["x" * ASKED_BYTES_LIMIT], ["x"] * (ASKED_BYTES_LIMIT // 64)], ids=["long", "many"]
)
def test_what_is_too_large_to_be_asked_is_denied_before_anybody_encodes_it(words: list[str]) -> None:
    found = judged(*words)
    assert isinstance(found, ExecVerdict)
    assert found.verdict is Verdict.DENY
    assert f"limited to {ASKED_BYTES_LIMIT} bytes" in found.reason
    assert len(found.reason) < 1000


def test_what_can_be_asked_is() -> None:
    assert isinstance(judged("x" * 1000), Approval)
    assert isinstance(judged(*["x"] * 10_000), Approval)


@pytest.mark.parametrize(
    ("program", "called", "is_plain"),
    [
        ("/usr/bin/true", "/bin/true", True),
        ("/usr/bin/uname", "/bin/other", False),
        ("/usr/bin/busybox", "/bin/uname", False),
    ],
)
def test_of_a_program_that_no_rule_is_about_nothing_else_is_needed(
    program: str, called: str, is_plain: bool
) -> None:
    interception = interception_of(rule("forbidden", "uname"))
    assert interception.is_plain(program, called) is is_plain
    assert interception.summary().counts[Verdict.RUN] == is_plain


def test_where_rules_are_broken_every_program_is_looked_at() -> None:
    interception = interception_of(broken_files=["/etc/broken.rules"])
    assert not interception.is_plain("/usr/bin/true", "/usr/bin/true")


async def test_what_leaves_the_sandbox_by_an_answer_is_looked_at_in_another_thread() -> None:
    """The command chooses how much there is to look at."""
    threads = set[int]()

    def is_writable(_: str) -> bool:
        threads.add(threading.get_ident())
        return False

    async def answer(_: str, __: ExecApprovalParams, ___: float | None) -> Answer:
        return Answer(ExecApprovalResult(verdict=Verdict.ESCALATE), QuestionOutcome.CLIENT)

    wanted = rules(rule("prompt", "uname"), on_prompt="ask")
    interception = Interception("p", wanted, lambda: Terms(is_writable, {}), RememberedAnswers(), answer)
    program = "/usr/bin/uname"
    execution = Execution("1", program, program, ("uname",), "/", is_genuine=True)
    approval = interception.judge(execution)
    assert isinstance(approval, Approval)
    threads.clear()
    found = await interception.settle(execution, approval)
    assert found.verdict is Verdict.ESCALATE
    assert threads
    assert threading.get_ident() not in threads

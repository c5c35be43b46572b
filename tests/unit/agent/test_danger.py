"""Which lines are asked about because of what they look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.agent.danger import looks_dangerous
from paddock.agent.fake_executor import FakeExecutor
from tests.unit.agent.scene import Answers, saying


@pytest.mark.parametrize(
    "line",
    [
        "rm -f x",
        "rm -rf build",
        "rm -r -f build",
        "rm --force x",
        "/bin/rm -fr x",
        "make && rm -rf x",
        "make; sudo rm -rf /",
        "X=1 rm -f x",
        "(cd x; rm -rf y)",
        "true\nrm -rf x",
        "true # comment\nrm -rf x",
        "rm -rf 'unclosed",
    ],
)
def test_removal_by_force_looks_dangerous(line: str) -> None:
    assert looks_dangerous(line)


@pytest.mark.parametrize(
    "line", ["", "rm x", "rm -r x", "rm -- -f", "echo rm -rf x", "echo 'a; rm -rf x'", "git rm -f x", "ls -f"]
)
def test_other_lines_do_not(line: str) -> None:
    assert not looks_dangerous(line)


@given(st.text())
def test_no_line_is_too_strange_to_be_looked_at(line: str) -> None:
    looks_dangerous(line)


@pytest.mark.parametrize(
    ("policy", "questions", "attempts"),
    [
        ("untrusted", 1, 1),
        ("on-request", 1, 1),
        ("on-failure", 1, 1),
        ("never", 0, 0),
        (paddock.Granular(sandbox_approval=True, rules=False), 1, 1),
        (paddock.Granular(sandbox_approval=False, rules=True), 0, 0),
    ],
)
async def test_policy_decides_whether_somebody_is_asked(
    policy: str | paddock.Granular, questions: int, attempts: int
) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    async with paddock.Agent(executor, approver=answers, approval_policy=policy) as tools:
        reply = await tools.call("exec_command", {"cmd": "rm -rf build"})
    assert (len(answers.requests), len(executor.started)) == (questions, attempts)
    assert reply.is_error == (attempts == 0)

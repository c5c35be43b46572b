"""How often a sandbox is planned again."""

from __future__ import annotations

from paddock.sandbox.plan_attempts import PLAN_LIMIT, PlanAttempts


def test_the_last_plan_is_followed_by_no_other() -> None:
    attempts = PlanAttempts()
    allowed = [attempts.may_plan_again("/w/a changed") for _ in range(PLAN_LIMIT)]
    assert allowed == [True] * (PLAN_LIMIT - 1) + [False]


def test_each_problem_is_told_once() -> None:
    attempts = PlanAttempts()
    for problem in ("/w/a changed", "/w/b changed", "/w/a changed"):
        attempts.may_plan_again(problem)
    assert attempts.problems == "/w/a changed; /w/b changed"

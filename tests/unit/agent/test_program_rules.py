"""Rules about programs are asked for only where there are any: a start without them can be a warm one."""

from __future__ import annotations

from paddock.agent.program_rules import intercept_params, needed_params
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy, Problem
from paddock.rules.rule import PrefixRule

RULE = PrefixRule((("git",), ("push",)), Action.PROMPT, Origin("team.rules", 3))


def test_without_rules_nothing_is_intercepted() -> None:
    assert needed_params(Policy(), on_prompt="ask") is None
    assert needed_params(Policy(host_executables={"git": ("/usr/bin/git",)}), on_prompt="ask") is None


def test_one_rule_is_enough_and_so_is_a_file_that_could_not_be_loaded() -> None:
    broken = Policy(problems=[Problem("team.rules", "line 3 makes no sense")])
    for policy in (Policy([RULE]), broken):
        assert needed_params(policy, on_prompt="deny") == intercept_params(policy, on_prompt="deny")

"""Which rules an approval may add."""

from __future__ import annotations

import threading

import pytest

from paddock.agent import command_rules
from paddock.agent.command_rules import CommandRules
from paddock.errors import AmendmentRefused
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule


def rule(action: Action, *words: str, unless: tuple[str, ...] = (), is_free: bool = False) -> PrefixRule:
    pattern = tuple((word,) for word in words)
    exceptions = (tuple((word,) for word in unless),) if unless else ()
    return PrefixRule(pattern, action, Origin("test.rules", 1), unless=exceptions, has_free_flags=is_free)


MERGE = ["/usr/bin/gh", "pr", "merge", "--admin"]


@pytest.mark.parametrize(
    ("stricter", "hosts"),
    [
        ((rule(Action.FORBIDDEN, "gh", "pr", "merge"),), {}),
        ((rule(Action.FORBIDDEN, "gh", "pr", "merge"), rule(Action.PROMPT, "gh")), {}),
        ((rule(Action.PROMPT, "gh", "pr", "merge"),), {"gh": ("/usr/bin/gh",)}),
        ((rule(Action.FORBIDDEN, "gh", "pr", unless=("gh", "pr", "view")),), {}),
        ((rule(Action.FORBIDDEN, "gh", "pr", "--admin", is_free=True),), {}),
    ],
)
def test_rule_for_a_path_that_would_hide_a_stricter_one_for_the_name_is_not_added(
    stricter: tuple[PrefixRule, ...], hosts: dict[str, tuple[str, ...]]
) -> None:
    rules = CommandRules(Policy(stricter, hosts))
    before = rules.policy.decide(MERGE).action

    assert rules.proposed_prefix("/usr/bin/gh pr view 3") == ()
    assert rules.fitting_prefix(["/usr/bin/gh", "pr"], "/usr/bin/gh pr view 3") == ()
    with pytest.raises(AmendmentRefused, match=r"test\.rules:1"):
        rules.allow(["/usr/bin/gh", "pr"])

    assert rules.policy.decide(MERGE).action is before
    # By the name, both rules count.
    rules.allow(["gh", "pr"])
    assert rules.policy.decide(MERGE).action is before


@pytest.mark.parametrize("path", ["bin/gh", "./bin/gh", "/usr/lib/../bin/gh", "//usr/bin/gh"])
def test_rule_for_another_spelling_of_a_path_hides_no_stricter_one(path: str) -> None:
    rules = CommandRules(Policy([rule(Action.FORBIDDEN, "gh", "pr", "merge")], {"gh": ("/usr/bin/gh",)}))
    assert rules.proposed_prefix(f"{path} pr view 3") == ()
    with pytest.raises(AmendmentRefused):
        rules.allow([path, "pr"])
    assert rules.policy.decide([path, "pr", "merge"], "/usr").action is Action.FORBIDDEN


@pytest.mark.parametrize(
    ("others", "hosts"),
    [
        # The question names it, and the rule is there to answer it.
        ((rule(Action.PROMPT, "gh"),), {}),
        ((rule(Action.PROMPT, "gh", "pr"),), {}),
        ((rule(Action.ALLOW, "gh", "pr", "view"),), {}),
        # None of the exceptions begins like this, nor can the flags change the words.
        ((rule(Action.PROMPT, "gh", unless=("gh", "repo", "view")),), {}),
        ((rule(Action.FORBIDDEN, "gh", "repo", "--admin", is_free=True),), {}),
        ((rule(Action.FORBIDDEN, "gh", "repo", "delete"),), {}),
        ((rule(Action.FORBIDDEN, "gh", "pr", "merge"),), {"gh": ("/opt/gh",)}),
    ],
)
def test_rule_for_a_path_that_hides_nothing_unseen_is_added(
    others: tuple[PrefixRule, ...], hosts: dict[str, tuple[str, ...]]
) -> None:
    rules = CommandRules(Policy(others, hosts))
    assert rules.proposed_prefix("/usr/bin/gh pr view 3") == ("/usr/bin/gh", "pr")
    rules.allow(["/usr/bin/gh", "pr"])
    assert rules.policy.decide(["/usr/bin/gh", "pr", "view", "3"]).action is Action.ALLOW


def test_rules_that_are_put_in_force_while_one_is_added_stay_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = CommandRules(Policy())
    stricter = Policy([rule(Action.FORBIDDEN, "gh", "pr", "merge")])
    renewing = threading.Thread(target=rules.renew, args=(stricter,))

    def slowly(*parts: object) -> Policy:
        monkeypatch.undo()
        renewing.start()
        renewing.join(0.1)
        return Policy(*parts)  # type: ignore[arg-type]

    monkeypatch.setattr(command_rules, "Policy", slowly)
    rules.allow(["ls"])
    renewing.join()

    assert rules.policy.decide(MERGE).action is Action.FORBIDDEN
    assert rules.policy.decide(["ls"]).action is Action.ALLOW

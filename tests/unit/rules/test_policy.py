"""What rules say together."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.decision import Action
from paddock.rules.policy import Policy, Problem, absolute_path
from paddock.rules.rule import Pattern, PrefixRule
from tests.unit.rules.builders import HERE, rule

STRICTNESS = {Action.ALLOW: 0, Action.PROMPT: 1, Action.FORBIDDEN: 2}

words = st.sampled_from(["git", "push", "pull", "-f", "--force", "x"])
patterns = st.lists(st.lists(words, min_size=1, max_size=2).map(tuple), min_size=0, max_size=3).map(tuple)
programs = st.sampled_from(["git", "rm"])


def starting(program: str, rest: Pattern) -> Pattern:
    return ((program,), *rest)


paths = st.sampled_from(["/usr/bin/git", "./git", "/usr/bin/rm"])


@st.composite
def rules(draw: st.DrawFn, programs: st.SearchStrategy[str] = programs) -> PrefixRule:
    program = draw(programs)
    return PrefixRule(
        pattern=starting(program, draw(patterns)),
        action=draw(st.sampled_from(Action)),
        origin=HERE,
        unless=tuple(starting(program, rest) for rest in draw(st.lists(patterns, max_size=2))),
        has_free_flags=draw(st.booleans()),
    )


commands = st.builds(
    lambda program, rest: [program, *rest],
    st.sampled_from(["git", "rm", "/usr/bin/git", "./git", "ls"]),
    st.lists(words, max_size=4),
)


def actions_of_fitting(all_rules: Sequence[PrefixRule], command: Sequence[str]) -> list[Action]:
    """The rules that fit, each asked alone and by name."""
    named = [absolute_path(command[0], "/").rpartition("/")[2], *command[1:]]
    return [each.action for each in all_rules if each.matched_prefix(named) is not None]


@given(st.lists(rules(), max_size=8), commands)
def test_every_rule_that_fits_is_reported_and_the_strictest_decides(
    all_rules: list[PrefixRule], command: list[str]
) -> None:
    decision = Policy(all_rules).decide(command)

    fitting = actions_of_fitting(all_rules, command)
    assert [match.action for match in decision.matches] == fitting
    assert decision.action == max(fitting, key=STRICTNESS.__getitem__, default=None)


rules_for_paths_too = rules(programs | paths)
executables = st.dictionaries(programs, st.lists(st.just("/usr/bin/git"), max_size=1).map(tuple))


@given(st.lists(rules_for_paths_too, max_size=8), executables, commands, st.randoms())
def test_the_order_of_rules_never_changes_a_decision(
    all_rules: list[PrefixRule],
    host_executables: dict[str, tuple[str, ...]],
    command: list[str],
    random: Random,
) -> None:
    shuffled = list(all_rules)
    random.shuffle(shuffled)

    decision = Policy(shuffled, host_executables).decide(command)
    assert decision.action == Policy(all_rules, host_executables).decide(command).action


@given(st.lists(rules(), max_size=8), rules(), commands)
def test_another_rule_never_loosens_a_decision(
    all_rules: list[PrefixRule], added: PrefixRule, command: list[str]
) -> None:
    before = Policy(all_rules).decide(command).action
    after = Policy([*all_rules, added]).decide(command).action

    assert not is_looser(after, before)


def is_looser(action: Action | None, than: Action | None) -> bool:
    """A decision is never given up: None is looser than any."""
    return than is not None and (action is None or STRICTNESS[action] < STRICTNESS[than])


@given(st.lists(rules_for_paths_too, max_size=8), rules_for_paths_too, executables, commands)
def test_another_rule_loosens_a_decision_only_by_naming_the_path_of_a_program_judged_by_its_name(
    all_rules: list[PrefixRule],
    added: PrefixRule,
    host_executables: dict[str, tuple[str, ...]],
    command: list[str],
) -> None:
    before = Policy(all_rules, host_executables).decide(command)
    after = Policy([*all_rules, added], host_executables).decide(command)

    if is_looser(after.action, before.action):
        assert added.program == command[0]
        assert "/" in command[0]
        assert all(match.resolved_program is not None for match in before.matches)
        assert [match.resolved_program for match in after.matches] == [None]


@given(st.lists(rules_for_paths_too, max_size=8), executables, commands)
def test_while_a_file_is_broken_only_what_no_rule_decides_is_decided_otherwise(
    all_rules: list[PrefixRule],
    host_executables: dict[str, tuple[str, ...]],
    command: list[str],
) -> None:
    sound = Policy(all_rules, host_executables).decide(command)
    broken = Policy(all_rules, host_executables, problems=[Problem("x.rules", "is broken")]).decide(command)

    assert broken.action is (Action.PROMPT if sound.action is None else sound.action)


def test_without_a_rule_nothing_is_decided() -> None:
    decision = Policy([rule("git", action=Action.FORBIDDEN)]).decide(["ls", "-l"])

    assert decision.action is None
    assert decision.matches == ()
    assert decision.reason == "no rule is about `ls -l`"


def test_while_a_file_is_broken_what_no_rule_decides_needs_approval() -> None:
    policy = Policy([rule("ls")], problems=[Problem("bad.rules", "is empty")])

    assert policy.decide(["ls"]).action is Action.ALLOW
    undecided = policy.decide(["rm", "x"])
    assert undecided.action is Action.PROMPT
    assert "bad.rules" in undecided.reason


def test_the_reason_is_that_of_the_most_specific_of_the_strictest_rules() -> None:
    policy = Policy(
        [
            rule("git", action=Action.FORBIDDEN, justification="never", line=1),
            rule("git", "push", action=Action.FORBIDDEN, justification="not from here", line=2),
            rule("git", "push", "origin", justification="fine", line=3),
        ]
    )

    decision = policy.decide(["git", "push", "origin"])

    assert decision.justification == "not from here"
    assert decision.reason == "`git push origin` is forbidden by test.rules:2: not from here"


def test_a_long_command_is_cut_in_a_sentence() -> None:
    assert len(Policy().decide(["echo", "x" * 10_000]).reason) < 300


@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("/usr/bin/git", "/usr/bin/git"),
        ("/usr/bin/../bin//git", "/usr/bin/git"),
        ("//usr/bin/git", "/usr/bin/git"),
        ("./git", "/work/git"),
        ("../git", "/git"),
        ("~/git", "/home/me/git"),
        ("~me/git", "/work/~me/git"),
    ],
)
def test_a_program_called_by_its_path_is_judged_by_its_name(program: str, path: str) -> None:
    decision = Policy([rule("git")]).decide([program, "x"], "/work", home="/home/me")

    assert decision.action is Action.ALLOW
    assert [match.resolved_program for match in decision.matches] == [path]


def test_a_path_is_not_looked_into_when_that_is_not_wanted() -> None:
    assert Policy([rule("git")]).decide(["/usr/bin/git"], resolves_paths=False).action is None


def test_a_name_stands_for_the_listed_paths_only() -> None:
    policy = Policy([rule("git")], {"git": ("/usr/bin/git",)})

    assert policy.decide(["/usr/bin/git"]).action is Action.ALLOW
    assert policy.decide(["/tmp/git"]).action is None
    assert policy.decide(["git"]).action is Action.ALLOW


def test_a_rule_for_a_path_hides_those_for_the_name() -> None:
    policy = Policy([rule("/usr/bin/git"), rule("git", action=Action.FORBIDDEN)])

    assert policy.decide(["/usr/bin/git"]).action is Action.ALLOW
    assert policy.decide(["/bin/git"]).action is Action.FORBIDDEN


@pytest.mark.parametrize("program", ["/", "/x/.."])
def test_the_root_directory_has_no_name(program: str) -> None:
    assert Policy([rule("")]).decide([program]).action is None


def test_no_command_at_all_is_not_decided() -> None:
    assert Policy([rule("git")]).decide([]).action is None

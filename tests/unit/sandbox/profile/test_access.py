from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidProfile
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    GlobPath,
    NamedPath,
    ProjectRoots,
    SlashTmp,
    TemporaryDirectory,
    UnknownSpecialPath,
)
from paddock.sandbox.profile.access import AccessTable, Rule, Surroundings, resolve
from paddock.sandbox.profile.path import clean, is_within

PATHS = st.lists(st.sampled_from("abc"), max_size=4).map(lambda names: "/" + "/".join(names))
RULES = st.lists(
    st.builds(Rule, PATHS, st.sampled_from([Access.READ, Access.WRITE, Access.DENY]), st.just("test"))
)


def _rule(path: str, access: Access) -> Rule:
    return Rule(path, access, "test")


def test_most_specific_rule_decides() -> None:
    table = AccessTable(
        [_rule("/repo", Access.WRITE), _rule("/repo/a", Access.DENY), _rule("/repo/a/b", Access.WRITE)]
    )
    assert table.access_of("/repo/x") is Access.WRITE
    assert table.access_of("/repo/a/x") is Access.DENY
    assert table.access_of("/repo/a/b/x") is Access.WRITE
    assert table.access_of("/repo/ab") is Access.WRITE


def test_without_a_rule_nothing_is_granted() -> None:
    assert AccessTable([_rule("/repo", Access.WRITE)]).access_of("/etc") is Access.DENY


@given(RULES, PATHS)
def test_access_is_that_of_the_longest_rule_and_the_strictest_among_equals(
    rules: list[Rule], path: str
) -> None:
    about = [rule for rule in rules if is_within(path, rule.path)]
    longest = max((clean(rule.path).count("/") * (rule.path != "/") for rule in about), default=0)
    candidates = [rule.access for rule in about if rule.path.count("/") * (rule.path != "/") == longest]
    expected = next(
        (access for access in (Access.DENY, Access.WRITE, Access.READ) if access in candidates), Access.DENY
    )
    assert AccessTable(rules).access_of(path) is expected


def test_special_paths_are_those_of_the_surroundings() -> None:
    entries = [
        AccessEntry(path=NamedPath(value=ProjectRoots(subpath="docs")), access=Access.READ),
        AccessEntry(path=NamedPath(value=TemporaryDirectory()), access=Access.WRITE),
        AccessEntry(path=NamedPath(value=SlashTmp()), access=Access.WRITE),
        AccessEntry(path=ExactPath(path="/a//b/./c/"), access=Access("none")),
    ]
    grants = resolve(entries, Surroundings(project_roots=("/r", "/s"), tmpdir=None))
    assert [(rule.path, rule.access) for rule in grants.rules] == [
        ("/r/docs", Access.READ),
        ("/s/docs", Access.READ),
        ("/tmp", Access.WRITE),
        ("/a/b/c", Access.DENY),
    ]


@pytest.mark.parametrize("subpath", ["..", "a/../../b", "/etc"])
def test_subpath_can_not_leave_its_root(subpath: str) -> None:
    entry = AccessEntry(path=NamedPath(value=ProjectRoots(subpath=subpath)), access=Access.WRITE)
    with pytest.raises(InvalidProfile, match="leaves the project root"):
        resolve([entry], Surroundings(project_roots=("/r",)))


def test_denial_of_an_unknown_place_is_an_error_and_a_grant_means_nothing() -> None:
    place = NamedPath(value=UnknownSpecialPath(path=":future"))
    surroundings = Surroundings(project_roots=("/r",))
    assert resolve([AccessEntry(path=place, access=Access.WRITE)], surroundings).rules == ()
    with pytest.raises(InvalidProfile, match="future"):
        resolve([AccessEntry(path=place, access=Access.DENY)], surroundings)


@pytest.mark.parametrize("roots", [("/r",), ()])
@pytest.mark.parametrize("pattern", ["../sibling/*.env", "/r/a*/../secret", "/r/secret/"])
def test_denial_that_would_deny_nothing_is_an_error(pattern: str, roots: tuple[str, ...]) -> None:
    entry = AccessEntry(path=GlobPath(pattern=pattern), access=Access.DENY)
    with pytest.raises(InvalidProfile, match=r"names nothing|matches nothing"):
        resolve([entry], Surroundings(project_roots=roots))

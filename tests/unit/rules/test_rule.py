"""Which commands a rule fits."""

from __future__ import annotations

import pytest

from tests.unit.rules.builders import pattern, rule


def fits(line: str, *places: str | list[str], has_free_flags: bool = False) -> bool:
    return rule(*places, has_free_flags=has_free_flags).matched_prefix(line.split()) is not None


@pytest.mark.parametrize(
    ("line", "is_fitting"),
    [
        ("git push", True),
        ("git push --force origin", True),
        ("git", False),
        ("git pull", False),
        ("git -C x push", False),
        ("gitk push", False),
    ],
)
def test_a_command_fits_that_begins_like_the_pattern(line: str, is_fitting: bool) -> None:
    assert fits(line, "git", "push") is is_fitting


def test_any_alternative_may_stand_in_its_place_and_is_reported() -> None:
    several = rule("git", ["log", "diff"])

    assert several.matched_prefix(["git", "diff", "HEAD"]) == ("git", "diff")
    assert several.matched_prefix(["git", "show"]) is None


def test_a_command_like_an_exception_does_not_fit() -> None:
    broad = rule("git", unless=[pattern("git", "status"), pattern("git", ["log", "diff"])])

    assert broad.matched_prefix(["git", "push"]) == ("git",)
    assert broad.matched_prefix(["git", "status", "-s"]) is None
    assert broad.matched_prefix(["git", "log"]) is None
    assert broad.matched_prefix(["git"]) == ("git",)


@pytest.mark.parametrize(
    ("beginning", "may_fit", "fits_all"),
    [
        ("git", True, False),
        ("git push", True, True),
        ("git status", False, False),
        ("git stash", True, False),
        ("git stash list", False, False),
        ("git stash drop", True, True),
        ("make", False, False),
    ],
)
def test_rule_tells_what_it_fits_by_the_beginning_of_a_command(
    beginning: str, may_fit: bool, fits_all: bool
) -> None:
    broad = rule("git", unless=[pattern("git", "status"), pattern("git", "stash", "list")])
    assert broad.may_fit(beginning.split()) is may_fit
    assert broad.fits_all(beginning.split()) is fits_all


@pytest.mark.parametrize(
    ("beginning", "may_fit", "fits_all"),
    [
        ("git", True, False),
        ("git --no-pager", True, False),
        ("git fetch", False, False),
        ("git push", True, False),
        ("git push --force", True, True),
        ("git --force push", True, True),
    ],
)
def test_rule_with_free_flags_tells_what_it_fits_by_the_beginning_of_a_command(
    beginning: str, may_fit: bool, fits_all: bool
) -> None:
    forced = rule("git", "push", ["-f", "--force"], has_free_flags=True)
    assert forced.may_fit(beginning.split()) is may_fit
    assert forced.fits_all(beginning.split()) is fits_all


@pytest.mark.parametrize(
    ("line", "is_fitting"),
    [
        ("git push --force", True),
        ("git push origin main --force", True),
        ("git --no-pager push origin --force", True),
        ("git push --force=yes", True),
        ("git push --force-with-lease", False),
        ("git push -- --force", False),
        ("git push", False),
        ("git pull --force", False),
        ("git origin push --force", False),
        ("git -C x push --force", False),
    ],
)
def test_a_free_flag_fits_wherever_it_stands(line: str, is_fitting: bool) -> None:
    assert fits(line, "git", "push", "--force", has_free_flags=True) is is_fitting


@pytest.mark.parametrize(
    ("line", "is_fitting"),
    [("rm x -f", True), ("rm -rf x", True), ("rm -r x", False), ("rm --fast x", False), ("rm - f", False)],
)
def test_a_short_free_flag_fits_in_a_bundle_too(line: str, is_fitting: bool) -> None:
    assert fits(line, "rm", "-f", has_free_flags=True) is is_fitting


def test_exceptions_of_a_rule_with_free_flags_have_free_flags() -> None:
    strict = rule("git", "push", has_free_flags=True, unless=[pattern("git", "push", ["-n", "--dry-run"])])

    assert strict.matched_prefix(["git", "push", "origin"]) == ("git", "push")
    assert strict.matched_prefix(["git", "push", "origin", "--dry-run"]) is None


def test_no_command_at_all_fits_nothing() -> None:
    assert rule("git").matched_prefix([]) is None
    assert rule("git", has_free_flags=True).matched_prefix([]) is None

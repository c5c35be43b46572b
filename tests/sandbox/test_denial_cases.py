"""Denials of many programs, by the real kernel and through a server: none is wrong, and few are missed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.conftest import USERS
from tests.sandbox.denial_case import GROUPS
from tests.sandbox.denial_ground import UserGround, is_installed, mistakes
from tests.sandbox.denial_table import PAGE, lines, recall, row

LEAST_RECALL = 0.8
"""Without a trace. Programs that keep to themselves what failed, or where, can't be understood better."""

LEAST_RECALL_TRACED = 0.98
"""All but what is hidden, of which nobody is told whether it is there."""

each_group = pytest.mark.parametrize("group", GROUPS)


@pytest.fixture(scope="module", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary")
def user(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module", name="cases_ground")
def ground_of_the_cases(user: int) -> Iterator[UserGround]:
    directory = Path(tempfile.mkdtemp(prefix="paddock-denials-", dir="/var/tmp")).resolve()
    directory.chmod(0o1777)
    with UserGround(user, directory) as ground:
        yield ground
    shutil.rmtree(directory)


def test_the_table_has_enough_cases_of_every_kind() -> None:
    cases = [case for group in GROUPS.values() for case in group]
    kinds = [case.kind for case in cases if case.kind is not None]
    assert (len(kinds) >= 60, len(cases) - len(kinds) >= 15, len(set(kinds))) == (True, True, 5)


@each_group
def test_what_is_certain_is_true(cases_ground: UserGround, group: str) -> None:
    for outcome in cases_ground.outcomes(group):
        for result in (outcome.plain, outcome.traced):
            assert mistakes(outcome.case, result) == [], outcome.case.script


@each_group
def test_the_table_in_the_docs_says_what_is_so(cases_ground: UserGround, group: str) -> None:
    page = PAGE.read_text().splitlines()
    for outcome in cases_ground.outcomes(group):
        assert row(outcome) in page, "run python -m tests.sandbox.denial_table"


@each_group
def test_cases_are_what_they_claim_to_be(cases_ground: UserGround, group: str) -> None:
    for outcome in cases_ground.outcomes(group):
        assert outcome.plain.is_shown in (True, None), outcome.case.script
        assert (outcome.plain.exit_code == 0) == (outcome.case.status == 0)


def test_most_denials_are_told_and_nearly_all_if_traced(cases_ground: UserGround) -> None:
    outcomes = [outcome for group in GROUPS for outcome in cases_ground.outcomes(group)]
    print("\n".join(lines(outcomes)))
    assert recall((outcome.case, outcome.plain) for outcome in outcomes) >= LEAST_RECALL
    assert recall((outcome.case, outcome.traced) for outcome in outcomes) >= LEAST_RECALL_TRACED


def test_every_case_runs_where_its_program_is() -> None:
    missing = sorted({case.tool for group in GROUPS.values() for case in group if not is_installed(case)})
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")

"""The child's environment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from paddock.errors import InvalidParams
from paddock.process.environment import NEVER_INHERITED, Inherit, InheritancePolicy, child_environment

SERVER = {"PATH": "/bin", "HOME": "/root", "API_KEY": "k", "my_secret": "s", "LANG": "C", "OTHER": "o"}
ALL = InheritancePolicy(
    inherit=Inherit.ALL, ignore_default_excludes=True, exclude=(), assign={}, include_only=()
)
NAMES = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]), min_size=1)
ENVIRONMENTS = st.dictionaries(NAMES, st.text())


def build(overlay: dict[str, str] | None = None, **changes: Any) -> dict[str, str]:
    return child_environment(SERVER, structs.replace(ALL, **changes), overlay or {})


def test_without_a_policy_nothing_is_inherited() -> None:
    assert child_environment(SERVER, None, {"A": "1"}) == {"A": "1"}


def test_core_inherits_the_variables_that_programs_need() -> None:
    assert build(inherit=Inherit.CORE) == {"PATH": "/bin", "HOME": "/root", "LANG": "C"}


def test_secrets_are_left_out_unless_asked_for() -> None:
    assert build(ignore_default_excludes=False) == {
        "PATH": "/bin",
        "HOME": "/root",
        "LANG": "C",
        "OTHER": "o",
    }
    assert build() == SERVER


def test_excludes_ignore_case_and_come_before_assignments() -> None:
    assert "OTHER" not in build(exclude=("oth*",))
    assert build(exclude=("oth*",), assign={"OTHER": "set"})["OTHER"] == "set"


def test_only_stars_and_question_marks_are_special_in_patterns() -> None:
    assert build(include_only=("[PH]*",)) == {}
    assert set(build(include_only=("?ATH", "H*E"))) == {"PATH", "HOME"}


def test_pattern_with_many_stars_takes_no_longer_than_others() -> None:
    name = "A" * 200
    assert build(
        assign={name: ""}, include_only=("*a" * 50 + "b", "*a" * 50 + "*"), exclude=("*a" * 50,)
    ) == {name: ""}


def test_policy_that_would_take_long_to_apply_is_refused() -> None:
    many = tuple(f"*{n}*" for n in range(1000))
    with pytest.raises(InvalidParams, match="1000 patterns"):
        build(assign=dict.fromkeys(map(str, range(10_000)), ""), include_only=many)


def test_any_number_of_plain_names_may_be_given() -> None:
    many = {f"NAME_{n}": "" for n in range(5000)}
    assert build(assign=many, include_only=tuple(many)) == many


def test_include_only_filters_assignments_but_not_the_overlay() -> None:
    built = build({"EXTRA": "e"}, assign={"SET": "s"}, include_only=("path",))

    assert built == {"PATH": "/bin", "EXTRA": "e"}


def test_launch_credentials_are_removed_even_from_the_overlay() -> None:
    overlay = {name.lower(): "x" for name in NEVER_INHERITED} | {"KEPT": "1"}

    assert child_environment({}, None, overlay) == {"KEPT": "1"}


@given(ENVIRONMENTS, ENVIRONMENTS)
def test_the_overlay_always_wins(base: dict[str, str], overlay: dict[str, str]) -> None:
    built = child_environment(base, ALL, overlay)

    for name, value in overlay.items():
        assert name.upper() in NEVER_INHERITED or built[name] == value

"""Patterns for names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.wildcard import SimpleWildcard, WildcardList, folded

LETTERS = "abAB\u0130ß"
PATTERNS = st.text("ab*?", max_size=6) | st.text(LETTERS + "*?", max_size=8)
TEXTS = st.text("ab", max_size=6) | st.text(LETTERS, max_size=8)


def is_match(pattern: str, text: str) -> bool:
    """Say the same as a regular expression."""
    special = {"*": ".*", "?": "."}
    expression = "".join(special.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(expression, text, re.IGNORECASE | re.DOTALL) is not None


@given(PATTERNS, TEXTS)
def test_a_simple_pattern_matches_what_the_regular_expression_matches(pattern: str, text: str) -> None:
    assert SimpleWildcard(pattern).matches(text) == is_match(pattern, text)


@given(st.lists(PATTERNS, max_size=4), TEXTS)
def test_a_list_matches_what_one_of_its_patterns_matches(patterns: list[str], text: str) -> None:
    expected = any(is_match(pattern, text) for pattern in patterns)
    assert WildcardList(patterns).matches_folded(folded(text)) == expected


@given(st.text())
def test_a_folded_text_has_as_many_characters_as_before(text: str) -> None:
    assert len(folded(text)) == len(text)
    assert folded(folded(text)) == folded(text)


def test_to_make_patterns_compiles_no_regular_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(*_: object) -> None:
        raise AssertionError("a client may bring hundreds of patterns, each for one use")

    monkeypatch.setattr(re, "compile", compiled)
    patterns = WildcardList(f"*{number}?{number}*" for number in range(100))

    assert patterns.matches_folded("a7b7")
    assert not patterns.matches_folded("a7b8")


def test_plain_names_are_not_matched_one_by_one() -> None:
    assert WildcardList(map(str, range(1000))).size == 0
    assert WildcardList(("*a*", "b*", "*c")).size < WildcardList(("a?", "b*c")).size

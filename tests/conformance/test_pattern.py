from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.pattern import Mismatch, check, check_streams, fill

PLAIN_TEXT = st.text(st.characters(exclude_characters="<$", codec="utf-8"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | PLAIN_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN_TEXT, inner, max_size=3),
    max_leaves=8,
)
UUID = "0b8f7c5e-3d1a-4f60-9c2b-7e1d5a90c4f3"


@given(JSON)
def test_every_value_fits_itself(value: Any) -> None:
    check(value, value)


@given(JSON, JSON)
def test_values_that_are_not_equal_do_not_fit(pattern: Any, value: Any) -> None:
    assume(pattern != value and not (isinstance(pattern, dict) and "..." in pattern))
    with pytest.raises(Mismatch):
        check(pattern, value)


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("<any>", {"a": [None]}),
        ("<int>", -5),
        ("<str>", ""),
        ("<uuid>", UUID),
        ("<base64:hi\n>", "aGkK"),
        ("<text-regex:h.\n>", "aGkK"),
        ("<base64:>", ""),
        ("<base64:a>b>", base64.b64encode(b"a>b").decode()),
        ("<regex:file:///.*>", "file:///a\nb"),
        ({"a": 1, "...": True}, {"a": 1, "b": 2}),
        ({"a": ["<int>", {"b": "<str>"}]}, {"a": [1, {"b": "c"}]}),
        ("<not a placeholder>", "<not a placeholder>"),
        (["<unordered>", [1, {"a": "<int>"}, 1]], [1, 1, {"a": 2}]),
        (["<unordered>", []], []),
    ],
)
def test_value_fits(pattern: Any, value: Any) -> None:
    check(pattern, value)


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (1, True),
        (1, 1.0),
        (False, 0),
        (None, False),
        ("1", 1),
        (["<unordered>", [1, 1]], [1, 2]),
        (["<unordered>", [1]], [1, 1]),
        (["<unordered>", [1]], {"1": 1}),
        ("<int>", True),
        ("<int>", 1.5),
        ("<int>", "1"),
        ("<str>", None),
        ("<uuid>", UUID.upper()),
        ("<uuid>", UUID + "0"),
        ("<uuid>", None),
        ("<base64:hi>", "aGk"),
        ("<text-regex:h>", "aGkK"),
        ("<base64:hi>", "hi"),
        ("<regex:a+>", "aab"),
        ("<regex:1>", 1),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": None}, {}),
        ({"a": 1, "...": True}, {"b": 2}),
        ({}, []),
        ([], {}),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
    ],
)
def test_value_does_not_fit(pattern: Any, value: Any) -> None:
    with pytest.raises(Mismatch):
        check(pattern, value)


def test_mismatch_names_the_place() -> None:
    with pytest.raises(Mismatch, match=r"\$\.result\.chunks\[1\]\.seq: expected 2, got 3"):
        check(
            {"result": {"chunks": [{"seq": 1}, {"seq": 2}]}}, {"result": {"chunks": [{"seq": 1}, {"seq": 3}]}}
        )


def test_misspelt_placeholder_is_not_taken_for_text() -> None:
    with pytest.raises(ValueError, match="<strr>"):
        check("<strr>", "<strr>")


def test_stream_that_is_not_mentioned_must_be_empty() -> None:
    check_streams({"stdout": "<base64:out>"}, {"stdout": b"out", "stderr": b""})
    with pytest.raises(Mismatch, match="stderr"):
        check_streams({"stdout": "<base64:out>"}, {"stdout": b"out", "stderr": b"!"})


def test_stream_that_is_mentioned_must_not_be_missing() -> None:
    with pytest.raises(Mismatch, match="stdout"):
        check_streams({"stdout": "<base64:out>"}, {})


def test_variables_are_filled_in_at_every_depth() -> None:
    value = {"a": ["${X}", {"b": "-${X}${Y}-"}], "c": 1}
    assert fill(value, {"X": "x", "Y": "y"}) == {"a": ["x", {"b": "-xy-"}], "c": 1}


def test_variable_that_was_never_captured_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill("${X}", {})

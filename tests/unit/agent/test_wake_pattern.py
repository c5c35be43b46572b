"""Expressions that a model may wait for, and where they are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agent.wake_pattern import LEAST_LINE_BYTES, LINE_BYTES, LineMatcher, compile_wake


@pytest.mark.parametrize(
    "pattern",
    [
        "ready",
        "^ready$",
        r"listening on .*:\d+",
        "a|b",
        "https?://x",
        "[*+?]{2}",
        r"\*\+\?\{",
        "(error|fail)",
        "(error|fail|warn|fatal) in (one|two|three)",
        "(a|b|c)?d|e?f?g?",
    ],
)
def test_pattern_that_ends_soon_is_taken(pattern: str) -> None:
    compile_wake(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        ".*.*.*x",
        "(a+)+b",
        "a{1,9}b{1,9}c{1,9}",
        "(",
        "",
        "(a|.)" * 40 + "b",
        "(a|a|a|a)" * 9,
        "a?" * 20,
        "(a|.)?" * 12 + ".*b",
    ],
)
def test_pattern_that_may_take_long_or_means_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        compile_wake(pattern)


def test_line_is_found_in_pieces_and_without_its_end() -> None:
    matcher = LineMatcher(compile_wake("^ready$"))
    assert [matcher.feed(piece) for piece in (b"not ready\nre", b"ad", b"y", b"!\n", b"ready\r\n")] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_end_of_a_long_line_is_not_looked_at() -> None:
    matcher = LineMatcher(compile_wake("x"))
    assert not matcher.feed(b"-" * LINE_BYTES + b"x")
    assert not matcher.feed(b"x\n")
    assert matcher.feed(b"x")


@given(st.lists(st.binary(max_size=20)), st.sampled_from([b"a", b"\n", b"ab"]))
def test_pieces_do_not_matter(pieces: list[bytes], wanted: bytes) -> None:
    pattern = compile_wake("^ab$")
    whole = b"".join(pieces) + b"\n" + wanted + b"\n"
    found = LineMatcher(pattern).feed(whole)
    matcher = LineMatcher(pattern)
    in_pieces = [matcher.feed(piece) for piece in (*pieces, b"\n" + wanted, b"\n")]
    # In pieces, the beginning of a line may match that goes on later.
    assert any(in_pieces) >= found


@pytest.mark.parametrize("pattern", [".*.*x", "(a|.)" * 11 + "b", "a?a?a?.*b", "(a|.)(a|.).*.*b", "^a*a*b"])
def test_expression_takes_no_more_steps_than_it_may(pattern: str) -> None:
    made = compile_wake(pattern)
    assert LEAST_LINE_BYTES <= made.line_bytes <= LINE_BYTES
    assert not LineMatcher(made).feed(b"a" * LINE_BYTES)


def test_more_choices_leave_less_of_a_line() -> None:
    sizes = [compile_wake(pattern).line_bytes for pattern in ("x", ".*x", ".*.*x", "a?.*.*x", "(a|b|c).*.*x")]
    assert sizes == [500, 500, 228, 181, 158]

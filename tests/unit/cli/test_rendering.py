"""Text for people."""

from __future__ import annotations

import io

import pytest

from paddock.cli.rendering import Colour, Palette, age_text, local_time, size_text, table


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (5 * 10**12, "5.0 TB"),
    ],
)
def test_a_size_is_told_in_a_few_characters(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("age_s", "text"),
    [(-3, "0s"), (0.9, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172_800, "2d")],
)
def test_an_age_is_told_in_its_largest_sensible_unit(age_s: float, text: str) -> None:
    assert age_text(age_s) == text


def test_columns_are_aligned_and_long_lines_cut() -> None:
    assert table(("A", "LONG", "C"), [("xxx", "y", "z z z z z z")], 14) == [
        "A    LONG  C",
        "xxx  y     z …",
    ]
    assert table(("A", "B"), []) == ["A  B"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it() -> None:
    assert Palette.of(Terminal(), {}).paint("x", Colour.RED) == "\x1b[31mx\x1b[0m"
    assert Palette.of(Terminal(), {"NO_COLOR": ""}).paint("x", Colour.RED) != "x"
    assert Palette.of(Terminal(), {"NO_COLOR": "1"}).paint("x", Colour.RED) == "x"
    assert Palette.of(Terminal(), {"TERM": "dumb"}).paint("x", Colour.RED) == "x"
    assert Palette.of(io.StringIO(), {}).paint("x", Colour.RED) == "x"


@pytest.mark.parametrize("time_ms", [2**63 - 1, -(2**63), 10**30, -(10**400), 10**400])
def test_a_time_that_no_calendar_has_is_a_question_mark(time_ms: int) -> None:
    assert local_time(0).startswith("19")
    assert local_time(time_ms) == "?"

"""How the prose of Markdown files is wrapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.wrap_prose import WIDTH, wrapped

LONG = " ".join(["word"] * 40)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nshort\nlines\n```\n",
        "| a |\n| b |\n",
        "# Heading\n",
        "    code\n    more code\n",
        "<!-- run after:\nshort\nlines\n-->\n",
        "- one\n- two\n\n1. three\n2. four\n",
    ],
)
def test_what_is_no_prose_stays(text: str) -> None:
    assert wrapped(text) == text


def test_line_takes_the_words_that_fit_and_no_more() -> None:
    first, second = wrapped(LONG.replace(" ", "\n")).split("\n")
    assert len(first) <= WIDTH < len(f"{first} {second.split()[0]}")
    assert f"{first} {second}" == LONG


def test_item_of_a_list_keeps_its_indent() -> None:
    first, second, third = wrapped(f"- {LONG}\n- other\n").rstrip("\n").split("\n")
    assert (first[:6], second[:6], third) == ("- word", "  word", "- other")


def test_span_of_code_is_not_broken() -> None:
    code = "`" + LONG[: WIDTH - 10] + "`"
    assert wrapped(f"some words before {code} and after").split("\n")[1].startswith(code)


def test_word_that_would_begin_a_list_does_not_begin_a_line() -> None:
    text = f"{'x' * (WIDTH - 2)} - and so on"
    assert not any(line.startswith("- ") for line in wrapped(text).split("\n"))


@given(
    st.lists(st.sampled_from(["word", "`a b`", "-", "1.", "[text](url)", "`", "*so*", "x" * 50]), min_size=1)
)
def test_wrapping_loses_no_word_and_is_done_once(words: list[str]) -> None:
    text = " ".join(["begin", *words])
    once = wrapped(text)
    assert once.split() == text.split()
    assert wrapped(once) == once

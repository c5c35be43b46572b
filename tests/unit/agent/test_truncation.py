"""Output cut to what a model may read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.agent.head_tail import HeadTail
from paddock.agent.truncation import cut, token_count


def output(data: bytes, limit_bytes: int = 1 << 20) -> HeadTail:
    buffer = HeadTail(limit_bytes)
    buffer.add(data)
    return buffer


CASES = {
    "empty": (b"", 10, ""),
    "one line": (b"done\n", 10, "done\n"),
    "no line end": (b"done", 10, "done"),
    "exactly at the limit": (b"x" * 40, 10, "x" * 40),
    "one byte over": (
        b"x" * 41,
        10,
        "The output was cut: it has about 11 tokens in 1 lines.\n\n"
        + "x" * 20
        + "\n[… about 1 tokens are left out …]\n"
        + "x" * 20,
    ),
    "many lines": (
        b"".join(b"line %d\n" % number for number in range(10)),
        5,
        (
            "The output was cut: it has about 18 tokens in 10 lines.\n\n"
            "line 0\nlin\n[… about 13 tokens are left out …]\n 8\nline 9\n"
        ),
    ),
    "characters of several bytes": (
        "äöü€".encode() * 4,
        3,
        "The output was cut: it has about 9 tokens in 1 lines.\n\näöü\n[… about 7 tokens are left out …]\nü€",
    ),
    "invalid UTF-8": (b"a\xff\xfeb", 10, "a\ufffd\ufffdb"),
    "binary": (b"\x00\x01\x02", 10, "\x00\x01\x02"),
    "terminal colours": (b"\x1b[31mred\x1b[0m\n", 10, "\x1b[31mred\x1b[0m\n"),
    "carriage returns": (b"10%\r20%\r100%\n", 10, "10%\r20%\r100%\n"),
    "nothing allowed": (
        b"text",
        0,
        "The output was cut: it has about 1 tokens in 1 lines.\n\n\n[… about 1 tokens are left out …]\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_model_reads(name: str) -> None:
    data, limit_tokens, expected = CASES[name]
    assert cut(output(data), limit_tokens).text == expected


def test_output_that_was_too_long_to_be_kept_says_so() -> None:
    told = cut(output(b"a" * 8 + b"b" * 100 + b"c" * 8, 16), 100)
    assert told.text == (
        "The output was cut: it has about 29 tokens, too many to be kept.\n\n"
        "aaaaaaaa\n[… about 25 tokens are left out …]\ncccccccc"
    )
    assert told.original_tokens == 29
    assert told.is_truncated


def test_character_across_head_and_tail_is_whole_where_nothing_is_missing() -> None:
    assert cut(output("a€b".encode(), 5), 10).text == "a€b"


@given(
    st.binary(max_size=400), st.integers(min_value=0, max_value=60), st.integers(min_value=2, max_value=300)
)
def test_text_keeps_within_its_limit(data: bytes, limit_tokens: int, kept_bytes: int) -> None:
    told = cut(output(data, kept_bytes), limit_tokens)
    assert told.original_tokens == token_count(len(data))
    if not told.is_truncated:
        assert told.text == data.decode("utf-8", "replace")
        assert len(told.text.encode()) <= 4 * limit_tokens
    else:
        notes = "The output was cut: it has about 999999 tokens, too many to be kept. about 99 left out …"
        assert len(told.text.encode()) <= 4 * limit_tokens + 2 * len(notes.encode())


@given(st.text(max_size=300), st.integers(min_value=1, max_value=40))
def test_what_is_cut_off_is_never_half_a_character(text: str, limit_tokens: int) -> None:
    assert "\ufffd" in text or "\ufffd" not in cut(output(text.encode("utf-8", "ignore")), limit_tokens).text

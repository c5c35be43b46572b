"""What is kept of a process is bounded, however long its arguments are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from paddock.process.description import KEPT_BYTES, WORD_CHARS, Description, _written_bytes


def described(*argv: str, cwd: str = "/") -> Description:
    return Description("p", argv, cwd, is_terminal=False)


def test_an_ordinary_process_is_kept_as_it_is() -> None:
    script = described("sh", "-c", "x" * 3000, "")

    assert script.shortened() == described("sh", "-c", "x" * 3000, "")
    assert script.shortened().arguments == 3


@pytest.mark.parametrize(
    "argv",
    [
        ("sh", *["x" * 120_000] * 14),
        ("x" * 2_000_000,),
        ("sh", *[""] * 60_000),
        ("sh", *["ab"] * 60_000),
        ("sh", "\x01" * 120_000),
        ("sh", *["\x01" * 500] * 60),
        ("sh", 'é\n"😀' * 3000),
        ("sh", "x" * (KEPT_BYTES - 2 - 2 * WORD_CHARS), "y"),
    ],
)
def test_long_arguments_are_cut_and_counted(argv: tuple[str, ...]) -> None:
    kept = described(*argv, cwd="/" + "\x01" * 60_000).shortened()

    assert len(json.encode(kept.argv)) < KEPT_BYTES + 1000
    assert len(kept.argv) <= KEPT_BYTES // WORD_CHARS + 1
    assert len(json.encode(kept.cwd)) < KEPT_BYTES + 100
    assert kept.arguments == len(argv) - 1


def test_what_was_cut_is_said() -> None:
    assert described("x" * (KEPT_BYTES + 5), "b", "c").shortened().argv == (
        "x" * KEPT_BYTES + "… (+5)",
        "… (+2 more)",
    )


@given(text=st.text())
def test_text_counts_as_it_is_written(text: str) -> None:
    assert _written_bytes(text) == len(json.encode(text)) - len('""')


def test_as_much_is_kept_as_has_room() -> None:
    kept = described("\x01" * 1000).shortened()
    assert kept.argv == ("\x01" * (KEPT_BYTES // 6) + f"… (+{1000 - KEPT_BYTES // 6})",)

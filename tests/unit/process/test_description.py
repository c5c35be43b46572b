"""What is kept of a process is bounded, however long its arguments are."""

from __future__ import annotations

import pytest

from paddock.process.description import KEPT_CHARS, WORD_CHARS, Description


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
        ("sh", "x" * (KEPT_CHARS - 2 - 2 * WORD_CHARS), "y"),
    ],
)
def test_long_arguments_are_cut_and_counted(argv: tuple[str, ...]) -> None:
    kept = described(*argv, cwd="/" + "d" * 60_000).shortened()

    assert sum(map(len, kept.argv)) < KEPT_CHARS + 100
    assert len(kept.argv) <= KEPT_CHARS // WORD_CHARS + 1
    assert len(kept.cwd) < KEPT_CHARS + 100
    assert kept.arguments == len(argv) - 1


def test_what_was_cut_is_said() -> None:
    assert described("x" * (KEPT_CHARS + 5), "b", "c").shortened().argv == (
        "x" * KEPT_CHARS + "… (+5)",
        "… (+2 more)",
    )

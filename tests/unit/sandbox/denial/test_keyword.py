"""The guess of the reference."""

from __future__ import annotations

import pytest

from paddock.sandbox.denial.keyword import SIGSYS_STATUS, is_denial


@pytest.mark.parametrize(
    ("exit_code", "text", "is_guessed"),
    [
        (1, b"touch: /a: Read-only file system\n", True),
        (1, b"touch: /a: No space left on device\n", False),
        (0, b"Permission denied\n", False),
        (SIGSYS_STATUS, b"", True),
    ],
)
def test_failure_with_one_of_the_words_counts_as_a_denial(
    exit_code: int, text: bytes, is_guessed: bool
) -> None:
    assert is_denial(exit_code, [b"", text]) is is_guessed

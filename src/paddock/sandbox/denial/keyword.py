"""Guesses from what a command wrote whether it failed because of its sandbox.

It does exactly what the reference does, so that the reference's clients see what they expect. Programs word
errors as they like, and may use one of these words for another reason; `denial` knows better. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

KEYWORDS: Final = (
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"seccomp",
    b"sandbox",
    b"landlock",
    b"failed to write file",
)
"""The words that the reference looks for, whatever their case."""

SIGSYS_STATUS: Final = 128 + 31
"""A system call that the filter kills for (signal(7))."""


def is_denial(exit_code: int, texts: Iterable[bytes]) -> bool:
    """Return whether the sandbox probably denied something to a command with this status and output."""
    if exit_code == 0:
        return False
    if exit_code == SIGSYS_STATUS:
        return True
    return any(keyword in text for text in map(bytes.lower, texts) for keyword in KEYWORDS)

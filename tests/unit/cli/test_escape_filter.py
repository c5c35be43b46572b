"""What was typed, and what the terminal sent by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.escape_filter import EscapeFilter

ANSWERS = {
    "version": b"\x1bP>|XTerm(370)\x1b\\",
    "device attributes": b"\x1b[?64;1;2;6;9;15c",
    "cursor position": b"\x1b[24;80R",
    "status": b"\x1b[0n",
    "window title": b"\x1b]lescalate\x1b\\",
    "window title, ended by a bell": b"\x1b]lescalate\x07",
    "window title with a line end": b"\x1b]l\rescalate\r\x1b\\",
    "setting": b"\x1bP1$r0;1m\x1b\\",
    "colour": b"\x1b]11;rgb:eeee/eeee/eeee\x1b\\",
    "mouse": b"\x1b[Mepr",
    "mouse, by decimal numbers": b"\x1b[<0;12;34M",
    "focus": b"\x1b[I",
    "application cursor key": b"\x1bOA",
    "8-bit version": b"\x90>|escalate\x9c",
    "8-bit cursor position": b"\x9b24;80R",
    "8-bit title": b"\x9dlescalate\x9c",
    "8-bit key": b"\x8fP",
    "a key with Alt": b"\x1be",
    "privacy message": b"\x1b^escalate\x1b\\",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("cut", range(5))
def test_what_a_terminal_answers_is_not_typed(answer: bytes, cut: int) -> None:
    # Its beginning may have come before anybody asked.
    text = EscapeFilter()
    assert text.feed(answer[:cut]) + text.feed(answer[cut:]) == b""
    assert text.feed(b"d\r") == b"d\r"


@given(st.text(alphabet=st.characters(blacklist_categories=("Cc", "Cs"))))
def test_text_in_any_script_is_typed(typed: str) -> None:
    assert EscapeFilter().feed(typed.encode()) == typed.encode()


@given(st.lists(st.sampled_from([*ANSWERS.values(), "größer €".encode()])))
def test_texts_between_answers_are_typed(pieces: list[bytes]) -> None:
    typed = b"".join(piece for piece in pieces if piece not in ANSWERS.values())
    assert EscapeFilter().feed(b"".join(pieces)) == typed

"""Detach keys: how they are written, and how they are found in what is typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.detach_keys import KeyWatch, parse_keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("ctrl-\\", b"\x1c"),
        ("ctrl-p,ctrl-q", b"\x10\x11"),
        ("CTRL-A,d", b"\x01d"),
        ("ctrl-@", b"\x00"),
        ("ctrl-_", b"\x1f"),
        ("~,.", b"~."),
        ("-", b"-"),
    ],
)
def test_keys_are_what_a_terminal_sends_for_them(text: str, keys: bytes) -> None:
    assert parse_keys(text) == keys


@pytest.mark.parametrize("text", ["", "ctrl-", "ctrl-pq", "ctrl-1", "alt-x", "ctrl-p,", "ab", "é", "\x1c"])
def test_what_is_not_a_key_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="is not a key; expected keys such as ctrl-p"):
        parse_keys(text)


def feed_all(watch: KeyWatch, *pieces: bytes) -> tuple[bytes, bool]:
    passed = b""
    for piece in pieces:
        typed = watch.feed(piece)
        passed += typed.data
        if typed.is_detaching:
            return passed, True
    return passed, False


def test_what_stands_before_the_keys_passes_and_what_follows_does_not() -> None:
    assert feed_all(KeyWatch(b"\x1c"), b"ls\r", b"x\x1crest") == (b"ls\rx", True)


def test_keys_that_come_one_by_one_are_found() -> None:
    assert feed_all(KeyWatch(b"\x10\x11"), b"a\x10", b"\x11") == (b"a", True)


def test_a_beginning_that_comes_to_nothing_passes_late_but_whole() -> None:
    watch = KeyWatch(b"\x10\x11")
    assert watch.feed(b"\x10").data == b""
    assert watch.feed(b"x").data == b"\x10x"


def test_keys_that_begin_again_inside_themselves_are_found() -> None:
    assert feed_all(KeyWatch(b"\x10\x10\x11"), b"\x10", b"\x10", b"\x10", b"\x11") == (b"\x10", True)


@given(st.lists(st.binary(max_size=5).map(lambda data: data.translate(bytes([97, 98, 99] * 85 + [97])))))
def test_cutting_makes_no_difference_and_nothing_is_lost(pieces: list[bytes]) -> None:
    keys, text = b"aab", b"".join(pieces)
    passed, is_detaching = feed_all(KeyWatch(keys), *pieces)
    place = text.find(keys)
    assert is_detaching == (place >= 0)
    if is_detaching:
        assert passed == text[:place]
    else:
        assert text.startswith(passed)
        assert keys.startswith(text[len(passed) :])

"""Lists of strings for programs in C."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.c_string import c_strings, refuse_nul

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])))


@given(TEXTS)
def test_a_list_comes_out_as_it_went_in_or_is_refused(strings: list[str]) -> None:
    if any("\0" in text for text in strings):
        with pytest.raises(ValueError, match="contains a NUL byte"):
            c_strings(strings)
    else:
        assert c_strings(strings).decode().split("\0") == [*strings, ""]


@given(st.binary().filter(lambda data: b"\0" not in data))
def test_bytes_that_are_not_utf_8_survive(data: bytes) -> None:
    assert c_strings([data.decode("utf-8", "surrogateescape")]) == data + b"\0"


def test_half_of_a_surrogate_pair_has_no_bytes() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        c_strings(["\ud800"])


def test_a_text_is_named() -> None:
    refuse_nul("subpath", None)
    refuse_nul("subpath", "fine")
    with pytest.raises(ValueError, match=r"subpath 'a\\x00b' contains a NUL byte"):
        refuse_nul("subpath", "a\0b")

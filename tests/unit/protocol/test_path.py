"""Absolute paths and `file:` URIs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.protocol.path import file_uri, parse_path

NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name and b"/" not in name)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tmp", "/tmp"),
        ("/a/../b", "/a/../b"),
        ("file:///tmp", "/tmp"),
        ("file:///", "/"),
        ("file:///tmp/", "/tmp/"),
        ("FILE:///tmp", "/tmp"),
        ("file://localhost/x", "/x"),
        ("file:tmp", "/tmp"),
        ("file:///a/./b/../c", "/a/c"),
        ("file:///sp%20ace", "/sp ace"),
        ("file:///sp ace/ä", "/sp ace/ä"),
        ("file:///100%25", "/100%"),
    ],
)
def test_a_path_is_read(text: str, path: str) -> None:
    assert parse_path(text).path == path


@pytest.mark.parametrize(
    "text", ["", "relative", "./x", "http://x/y", "file:///a?b", "file:///a#b", "file:///a%00b", "/a\0b", "~"]
)
def test_what_is_no_path_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="path "):
        parse_path(text)


@pytest.mark.parametrize("text", ["file://host/x", "file:///C:/x", "file:///c:"])
def test_paths_of_other_hosts_are_marked_foreign(text: str) -> None:
    assert parse_path(text).is_foreign


def test_an_answer_uses_the_form_of_the_request() -> None:
    assert parse_path("/tmp").like("/a b") == "/a b"
    assert parse_path("file:///tmp").like("/a b") == "file:///a%20b"


@given(st.lists(NAMES.filter(lambda name: name not in (b".", b"..")), min_size=1, max_size=4))
def test_every_file_name_survives_the_round_trip(names: list[bytes]) -> None:
    path = "/" + b"/".join(names).decode("utf-8", "surrogateescape")

    parsed = parse_path(file_uri(path))

    assert parsed.path == path or parsed.is_foreign
    assert parsed.is_uri

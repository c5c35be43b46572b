"""Absolute paths and `file:` URIs."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.protocol.path import file_uri, parse_path

PIECES = st.sampled_from(
    [
        "/",
        "a",
        "Z_9-.",
        ".",
        "..",
        "%41",
        "%2E",
        "%",
        "\0",
        "?",
        "#",
        "~",
        "C:",
        "ä",
        "\ud800",
        "localhost",
        "\n",
    ]
)
NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name and b"/" not in name)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tmp", "/tmp"),
        ("/a/../b", "/a/../b"),
        ("file:///tmp", "/tmp"),
        ("file:///", "/"),
        ("file:///tmp/", "/tmp"),
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
    assert parse_path("/tmp").like(b"/a b") == "/a b"
    assert parse_path("file:///tmp").like(b"/a b") == "file:///a%20b"


def test_a_name_that_is_not_text_is_answered_as_a_uri() -> None:
    assert parse_path("/tmp").like(b"/a\xff") == "file:///a%FF"
    assert parse_path("file:///a%FF").path == "/a\udcff"


@given(st.lists(PIECES, max_size=8).map("".join))
@example("")
@example("/")
@example("/a/")
@example("//a")
@example("/.a")
@example("/a/..")
@example("/c:/x")
@example("/a" * 10_000)
def test_a_uri_is_read_alike_whether_or_not_it_names_this_host(rest: str) -> None:
    assert reading("file://" + "/" + rest) == reading("file://localhost/" + rest)


def reading(text: str) -> object:
    """What is made of a text, or why it is refused."""
    try:
        parsed = parse_path(text)
    except ValueError as problem:
        return str(problem).replace(repr(text), "")
    return parsed.path, parsed.is_uri, parsed.is_foreign


@given(st.lists(NAMES, max_size=4))
def test_paths_of_a_directory_are_written_one_by_one_or_together_alike(names: list[bytes]) -> None:
    for given_form in (parse_path("/d"), parse_path("file:///d")):
        one_by_one = [given_form.like(b"/d/" + name) for name in names]
        assert list(given_form.all_like(b"/d", names)) == one_by_one


@given(st.lists(NAMES.filter(lambda name: name not in (b".", b"..")), min_size=1, max_size=4))
def test_every_file_name_survives_the_round_trip(names: list[bytes]) -> None:
    path = "/" + b"/".join(names).decode("utf-8", "surrogateescape")

    parsed = parse_path(file_uri(path))

    assert parsed.path == path or parsed.is_foreign
    assert parsed.is_uri

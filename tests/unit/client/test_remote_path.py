from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.client.files import Files
from paddock.client.remote_path import RemotePath
from paddock.client.wire_path import local_name
from paddock.errors import ProtocolViolation
from paddock.protocol.path import file_uri

NOWHERE = Files.__new__(Files)
"""Joining paths asks no server."""

NAMES = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=8)


@given(st.lists(NAMES, max_size=5), st.lists(NAMES, min_size=1, max_size=3))
def test_paths_are_joined_and_taken_apart_as_pathlib_does(parts: list[str], more: list[str]) -> None:
    model = PurePosixPath("/", *parts)
    path = RemotePath(NOWHERE, str(model))
    assert str(path.joinpath(*more)) == str(model.joinpath(*more))
    assert str(path / more[0]) == str(model / more[0])
    assert (path.name, path.stem, path.suffix, path.parts) == (
        model.name,
        model.stem,
        model.suffix,
        model.parts,
    )
    assert str(path.parent) == str(model.parent)
    assert path.joinpath(*more).is_relative_to(path)


def test_a_path_is_a_value() -> None:
    path = RemotePath(NOWHERE, "/a/b.txt")
    assert path == RemotePath(NOWHERE, "/a") / "b.txt"
    assert len({path, RemotePath(NOWHERE, "/a/b.txt")}) == 1
    assert sorted([path, path.parent]) == [path.parent, path]
    assert (str(path.with_name("c")), str(path.with_suffix(".md"))) == ("/a/c", "/a/b.md")
    assert repr(path) == "RemotePath('/a/b.txt')"


def test_a_uri_is_the_path_that_it_names() -> None:
    assert str(RemotePath(NOWHERE, "file:///tmp/a%20b")) == "/tmp/a b"


@pytest.mark.parametrize("bad", ["", "relative", "./x", "http://host/x", "/nul\0byte"])
def test_what_is_not_an_absolute_path_is_refused_before_anything_is_sent(bad: str) -> None:
    with pytest.raises(ValueError, match=r"not absolute|NUL"):
        RemotePath(NOWHERE, bad)


@given(st.binary(min_size=1).filter(lambda name: not {0, 0x2F} & set(name)))
def test_names_that_are_not_text_survive_the_way_there_and_back(name: bytes) -> None:
    path = "/d/" + name.decode("utf-8", "surrogateescape")
    if name not in (b".", b".."):
        assert local_name(file_uri(path)) == path


def test_the_reference_servers_form_of_such_a_name_is_understood() -> None:
    assert local_name("file:///%00/bad/path/L3RtcC__") == "/tmp/\udcff"


def test_an_answer_that_is_no_path_is_the_servers_fault() -> None:
    with pytest.raises(ProtocolViolation, match="an invalid path"):
        local_name("relative")

"""Which process a name means."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.selection import Candidate, select, short_names
from paddock.errors import SelectionError
from paddock.protocol.control import ProcessStatus, ServerStatus, SessionStatus

SERVER = ServerStatus(pid=1, url="ws://127.0.0.1:1", version="0", uptime_ms=0)


def candidate(session_id: str, process_id: str) -> Candidate:
    process = ProcessStatus(
        process_id=process_id,
        pid=2,
        argv=["x"],
        cwd="/",
        tty=False,
        rows=None,
        cols=None,
        running=True,
        survivors=False,
        exit_code=None,
        failure=None,
        started_at_ms=0,
        keep_alive=False,
        output_bytes=0,
        next_seq=1,
    )
    session = SessionStatus(session_id=session_id, client_name="c", attached=True, processes=[process])
    return Candidate(Path("/control"), SERVER, session, process)


KNOWN = [
    candidate("aaaa1111", "build"),
    candidate("aaaa1111", "build-2"),
    candidate("aaaa2222", "1"),
    candidate("bbbb3333", "1"),
    candidate("bbbb3333", "0123456789abcdef0123"),
    candidate("bbbb3333", "with/slash"),
    candidate("bbbb3333", ""),
    candidate("bbbb3333", "bell\a"),
]


@pytest.mark.parametrize(
    ("wanted", "long_name"),
    [
        ("build", "aaaa1111/build"),
        ("build-", "aaaa1111/build-2"),
        ("0123", "bbbb3333/0123456789abcdef0123"),
        ("bbbb3333/1", "bbbb3333/1"),
        ("b/1", "bbbb3333/1"),
        ("aaaa2/1", "aaaa2222/1"),
        ("b/012", "bbbb3333/0123456789abcdef0123"),
        ("with/slash", "bbbb3333/with/slash"),
        ("with/", "bbbb3333/with/slash"),
        ("b/with/slash", "bbbb3333/with/slash"),
        ("bbbb3333/", "bbbb3333/"),
        ("", "bbbb3333/"),
        ("bell\\u0007", "bbbb3333/bell\a"),
    ],
)
def test_a_name_that_fits_one_process_finds_it(wanted: str, long_name: str) -> None:
    assert select(KNOWN, wanted).long_name == long_name


@pytest.mark.parametrize(
    ("wanted", "candidates"),
    [
        ("1", ["aaaa2222/1", "bbbb3333/1"]),
        ("buil", ["aaaa1111/build", "aaaa1111/build-2"]),
        ("a/b", ["aaaa1111/build", "aaaa1111/build-2"]),
    ],
)
def test_a_name_that_fits_several_is_refused_and_names_them(wanted: str, candidates: list[str]) -> None:
    with pytest.raises(SelectionError, match=f"{wanted!r} fits 2 processes") as caught:
        select(KNOWN, wanted)
    assert caught.value.candidates == candidates
    assert ", ".join(candidates) in str(caught.value)


@pytest.mark.parametrize("wanted", ["x", "cccc/1", "/1", "2", "slash"])
def test_a_name_that_fits_nothing_says_where_to_look(wanted: str) -> None:
    with pytest.raises(SelectionError, match=r"no process .*; `paddock ps --all` lists"):
        select(KNOWN, wanted)


def test_very_many_candidates_are_not_all_named() -> None:
    many = [candidate("s", f"p{number}") for number in range(100)]
    with pytest.raises(SelectionError, match="fits 100 processes") as caught:
        select(many, "p")
    assert caught.value.candidates[-1] == "and 90 more"


def test_short_names_are_short_where_they_can_be() -> None:
    assert short_names(KNOWN) == [
        "build",
        "build-2",
        "aaaa2222/1",
        "bbbb3333/1",
        "0123456789ab",
        "with/slash",
        "bbbb3333/",
        "bell\\u0007",
    ]


ids = st.text("ab/\x07-", max_size=20)
sessions = st.sampled_from(["11111111-a", "22222222-b"])


@given(st.lists(st.tuples(sessions, ids), unique=True, max_size=8))
def test_every_name_that_is_shown_is_understood(names: list[tuple[str, str]]) -> None:
    known = [candidate(session_id, process_id) for session_id, process_id in names]
    for name, expected in zip(short_names(known), known, strict=True):
        assert select(known, name) is expected

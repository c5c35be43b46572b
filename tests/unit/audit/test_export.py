"""Choosing records, and writing them as rows."""

from __future__ import annotations

import pytest

from paddock.audit.export import COLUMNS, row_of
from paddock.audit.query import Query, Record, record_of

RECORD: Record = {
    "seq": 7,
    "time": "2026-03-04T05:06:07.890123Z",
    "kind": "start",
    "session": "0f3a9c2e",
    "process": "build",
    "argv": ["ls", "-l"],
    "cwd": "/",
    "env": {"PATH": "/bin"},
    "terminal": True,
    "prev": "0" * 64,
}


@pytest.mark.parametrize(
    "query",
    [
        Query(),
        Query(kinds=frozenset({"start", "exit"})),
        Query(session="0f3a"),
        Query(session="0f3a9c2e-52a8-4f0e-9a55-3e1f6a0f9d11"),
        Query(process="bui"),
        Query(since="2026-03-04T05:06:07.000000Z"),
    ],
)
def test_a_record_that_fits_is_taken(query: Query) -> None:
    assert query.takes(RECORD)


@pytest.mark.parametrize(
    "query",
    [
        Query(kinds=frozenset({"exit"})),
        Query(session="0f3b"),
        Query(process="uild"),
        Query(since="2026-03-04T05:06:08.000000Z"),
        Query(kinds=frozenset({"start"}), process="x"),
    ],
)
def test_a_record_that_does_not_fit_is_left_out(query: Query) -> None:
    assert not query.takes(RECORD)


def test_a_record_without_a_session_belongs_to_none() -> None:
    assert not Query(session="0f3a").takes({"seq": 1, "time": "", "kind": "opened"})


def test_a_row_has_every_column_and_the_rest_as_details() -> None:
    row = dict(zip(COLUMNS, row_of(RECORD), strict=True))

    assert row["seq"] == "7"
    assert row["argv"] == '["ls", "-l"]'
    assert row["details"] == '{"terminal": true}'
    assert row["exit_code"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert dict(zip(COLUMNS, row_of({**RECORD, "process": text}), strict=True))["process"] == f"'{text}"


@pytest.mark.parametrize("line", [b"", b"x", b"[]", b'"seq"', b'{"seq":1}', b"\xff"])
def test_what_is_no_record_is_none(line: bytes) -> None:
    assert record_of(line) is None

"""What was learned about files, and whether it still is so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.errors import ProfileRefused
from paddock.sandbox.host import lookup_record
from paddock.sandbox.host.lookup_record import LookupRecord


def size_of(path: str) -> int:
    return os.stat(path).st_size


def test_each_path_is_asked_about_once_and_noticed_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    record = LookupRecord()
    assert record.ask(size_of, str(path)) == 3
    assert record.still_holds()
    path.write_text("three")
    assert record.ask(size_of, str(path)) == 3
    assert not record.still_holds()
    path.write_text("two")
    assert record.still_holds()
    path.unlink()
    assert not record.still_holds()


def test_the_caller_decides_whether_other_answers_lead_to_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    record = LookupRecord()
    record.ask(size_of, str(path))
    path.write_text("three")
    assert record.still_holds(lambda *found: found == (str(path), 3, 5))
    assert not record.still_holds(lambda *_: False)


def test_more_paths_than_can_be_remembered_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_record, "ANSWERS_LIMIT", 2)
    record = LookupRecord()
    for path in ("/a", "/b", "/a"):
        record.ask(len, path)
    with pytest.raises(ProfileRefused, match="/c is one of more than 2 paths"):
        record.ask(len, "/c")

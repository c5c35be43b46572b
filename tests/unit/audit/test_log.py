"""The files of a log: permissions, rotation, and going on after a kill or on a full disk."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from paddock.audit.chain import ORIGIN, Anchor
from paddock.audit.segment import TIP_NAME, read_tip, verify
from paddock.audit.tip import Tip
from paddock.errors import AuditLogError
from tests.unit.audit.logs import (
    a_start,
    an_exit,
    contents,
    full_disk,
    kill,
    open_log,
    restore,
    segments,
    stamped,
    write_runs,
)


def records(directory: Path) -> list[dict[str, Any]]:
    """Every line that is a record."""
    found = []
    for segment in segments(directory):
        for line in segment.read_bytes().split(b"\n"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "log"


# --- files ------------------------------------------------------------------


def test_only_the_owner_can_read_or_write_a_log(path: Path) -> None:
    open_log(path).close()

    assert path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.iterdir()} == {0o600}


def test_a_directory_that_others_can_write_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    path.chmod(0o770)

    with pytest.raises(AuditLogError, match="others can write there; it must belong"):
        open_log(path)


def test_a_second_server_is_refused_until_the_first_has_ended(path: Path) -> None:
    first = open_log(path)
    with pytest.raises(AuditLogError, match="another server writes it; give each server a log of its own"):
        open_log(path)
    first.close()
    open_log(path).close()

    assert [record["kind"] for record in records(path)] == ["opened", "closed", "opened", "closed"]


def test_a_path_that_is_no_directory_is_refused(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("")

    with pytest.raises(AuditLogError, match="can't be opened: File exists"):
        open_log(path)


def test_a_segment_that_is_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    open_log(path).close()
    (tmp_path / "elsewhere").write_bytes(segments(path)[0].read_bytes())
    segments(path)[0].unlink()
    (path / "audit-00000001.jsonl").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(AuditLogError, match="can't be written"):
        open_log(path)


@pytest.mark.parametrize("is_synced", [False, True])
def test_segments_are_numbered_and_the_chain_goes_through_them(path: Path, is_synced: bool) -> None:
    log = open_log(path, segment_bytes=1000, is_synced=is_synced)
    write_runs(log, 10)
    log.close()

    names = [segment.name for segment in segments(path)]
    assert names == [f"audit-{number:08d}.jsonl" for number in range(1, len(names) + 1)]
    assert len(names) > 3
    assert [record["segment"] for record in records(path) if "segment" in record] == list(
        range(1, len(names) + 1)
    )
    assert [record["seq"] for record in records(path)] == list(range(1, 23))
    assert verify(path).is_sound


def test_the_tip_names_the_last_record_and_whether_the_log_is_closed(path: Path) -> None:
    log = open_log(path)
    write_runs(log, 1)
    assert read_tip(path) == Tip(log.last, is_closed=False)
    log.close()
    assert read_tip(path) == Tip(log.last, is_closed=True)


def test_a_segment_that_was_removed_under_the_server_is_noticed(path: Path) -> None:
    log = open_log(path)
    segments(path)[0].unlink()

    assert (
        str(log.append(stamped(a_start())).error) == "[Errno 2] its segment was removed while it was written"
    )
    log.close()


@pytest.mark.parametrize("name", ["audit-00000001.jsonl", TIP_NAME])
def test_a_file_that_was_moved_or_replaced_under_the_server_is_noticed(path: Path, name: str) -> None:
    log = open_log(path)
    (path / name).rename(path / "away")
    assert "was moved away while it was written" in str(log.append(stamped(a_start())).error)

    (path / name).touch()
    assert "was replaced while it was written" in str(log.append(stamped(a_start())).error)

    (path / "away").rename(path / name)
    assert log.append(stamped(a_start())).error is None
    log.close()
    assert verify(path).is_sound


@pytest.mark.parametrize("change", [-1, 1])
def test_a_segment_that_somebody_else_cuts_or_writes_to_is_noticed(path: Path, change: int) -> None:
    log = open_log(path)
    segment = segments(path)[0]
    os.truncate(segment, segment.stat().st_size + change)

    outcome = log.append(stamped(a_start()))
    assert outcome.count == 0
    assert "somebody else has cut its segment or written to it" in str(outcome.error)
    log.release()


# --- after a kill -----------------------------------------------------------


def test_a_log_goes_on_where_a_killed_server_has_stopped(path: Path) -> None:
    log = open_log(path)
    write_runs(log, 2)
    kill(log)
    open_log(path).close()

    assert [record["seq"] for record in records(path)] == list(range(1, 8))
    assert verify(path).is_sound


def test_wherever_a_line_is_torn_the_log_verifies_before_and_after_the_next_start(path: Path) -> None:
    log = open_log(path, segment_bytes=10**6)
    write_runs(log, 2)
    kill(log)
    before = contents(path)
    log = open_log(path, segment_bytes=10**6)
    log.append(stamped(a_start("torn")))
    kill(log)
    (name,) = (segment.name for segment in segments(path))
    size_bytes = len(before[name])
    opened_bytes = contents(path)[name].index(b"\n", size_bytes) + 1 - size_bytes
    written = contents(path)[name]

    for end in range(size_bytes, len(written) + 1):
        restore(path, {**before, name: written[:end]})
        whole = 5 + (end - size_bytes >= opened_bytes) + (end == len(written))
        report = verify(path)
        assert report.is_sound
        assert report.records == whole
        open_log(path, segment_bytes=10**6).close()
        after = verify(path)
        assert after.is_sound
        assert after.records >= whole + 2


def test_a_first_line_of_a_segment_that_was_torn_is_ended_in_its_segment(path: Path) -> None:
    log = open_log(path, segment_bytes=1)
    kill(log)
    (path / "audit-00000002.jsonl").write_bytes(b'{"seq":')
    open_log(path, segment_bytes=1).close()

    assert (path / "audit-00000002.jsonl").read_bytes().startswith(b'{"seq":\n{"seq":2,')
    report = verify(path)
    assert report.problems == []
    assert len(report.notes) == 1


def test_an_empty_segment_that_a_killed_server_has_made_is_used(path: Path) -> None:
    log = open_log(path, segment_bytes=1)
    kill(log)
    (path / "audit-00000002.jsonl").write_bytes(b"")
    open_log(path, segment_bytes=1).close()

    assert verify(path).is_sound


def test_records_that_the_tip_did_not_name_yet_belong_to_the_log(path: Path) -> None:
    log = open_log(path)
    tip = (path / TIP_NAME).read_bytes()
    write_runs(log, 8)
    kill(log)
    (path / TIP_NAME).write_bytes(tip)

    (note,) = verify(path).notes
    assert note.text == "16 records come after the tip: their server was killed, or is writing now"
    open_log(path).close()
    assert verify(path).is_sound


def test_what_was_missing_when_a_server_opened_the_log_is_told_for_ever(path: Path) -> None:
    log = open_log(path, segment_bytes=10**6)
    write_runs(log, 3)
    kept = log.last
    kill(log)
    (segment,) = segments(path)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-2]))
    open_log(path).close()

    (problem,) = verify(path).problems
    assert str(problem) == (
        f"{segment.name}:6: the log did not end as its tip said, with record {kept}, when it was opened"
    )


def test_a_missing_tip_is_told_for_ever_too(path: Path) -> None:
    open_log(path).close()
    (path / TIP_NAME).unlink()
    open_log(path).close()

    (problem,) = verify(path).problems
    assert problem.text == "there was no tip when the log was opened: lines before this may be missing"


def test_a_log_whose_end_is_rubbish_is_not_continued(path: Path) -> None:
    open_log(path).close()
    with segments(path)[0].open("ab") as file:
        file.write(b"x" * 9 * 1024 * 1024)

    with pytest.raises(AuditLogError, match="holds no record; move the log away"):
        open_log(path)


KILLS = 8
LONGEST_RUN_S = 0.03
ROOT = Path(__file__).resolve().parent.parent.parent.parent
WRITER = """
import sys
from pathlib import Path
from tests.unit.audit.logs import a_start, open_log, stamped

log = open_log(Path(sys.argv[1]), segment_bytes=4_000_000)
# Long enough for a kill to come in the middle of a write, which is looked at from page to page.
events = stamped(*(a_start("p", "x" * 250_000) for _ in range(10)))
while True:
    log.append(events)
    print(log.last.seq, flush=True)
"""


def test_a_log_verifies_up_to_its_last_whole_line_however_often_its_server_is_killed(path: Path) -> None:
    rng = random.Random(7)
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            # Nothing is waited for: any moment will do, and it should not always be the same.
            time.sleep(rng.uniform(0, LONGEST_RUN_S))
            writer.kill()
            *_, acknowledged = writer.stdout.read().split() or ["0"]
        report = verify(path)
        assert report.problems == []
        assert report.records >= int(acknowledged)


# --- a full disk ------------------------------------------------------------


@pytest.mark.parametrize("room_bytes", [0, 1, 100, 300])
def test_what_does_not_fit_is_not_counted_and_the_chain_goes_on_when_there_is_room(
    path: Path, room_bytes: int
) -> None:
    log = open_log(path)
    with full_disk(path, room_bytes):
        outcome = log.append(stamped(a_start("first"), a_start("second")))
        again = log.append(stamped(a_start("third")))
    assert outcome.error is not None
    assert again.error is not None
    assert outcome.count == (room_bytes == 300)

    write_runs(log, 1)
    log.close()

    report = verify(path)
    assert report.problems == []
    assert len(report.notes) == (room_bytes not in (0,))
    assert report.records == 4 + outcome.count


def test_wherever_a_disk_is_full_again_and_again_the_log_verifies(path: Path) -> None:
    log = open_log(path, segment_bytes=10**6)
    log.append(stamped(an_exit()))
    line_bytes = len(segments(path)[0].read_bytes().splitlines(keepends=True)[-1])
    counted = 2
    for first_bytes in (0, 1, 9, line_bytes - 2, line_bytes - 1, line_bytes):
        for again_bytes in (0, 1, 2, 9, line_bytes - 1, line_bytes, line_bytes + 1):
            for room_bytes in (first_bytes, again_bytes, 1):
                with full_disk(path, room_bytes):
                    counted += log.append(stamped(an_exit())).count
                assert verify(path).problems == []
            counted += log.append(stamped(an_exit())).count
    log.release()

    report = verify(path)
    assert report.problems == []
    assert report.records == log.last.seq == counted


def test_a_line_that_lacks_nothing_but_its_end_and_was_not_counted_is_no_record(path: Path) -> None:
    log = open_log(path)
    before = len(records(path))
    log.append(stamped(an_exit("known")))
    line_bytes = len(segments(path)[0].read_bytes().splitlines(keepends=True)[-1])
    with full_disk(path, line_bytes - 1):
        assert log.append(stamped(an_exit("other"))).count == 0
    assert log.append(stamped(an_exit("third"))).count == 1
    log.close()

    assert verify(path).problems == []
    assert [record.get("process") for record in records(path)[before:]] == ["known", "third", None]


def test_a_server_does_not_start_with_a_log_that_it_cannot_write(path: Path) -> None:
    open_log(path).close()
    with full_disk(path, 0), pytest.raises(AuditLogError, match="can't be written: File too large"):
        open_log(path)
    open_log(path).close()

    assert verify(path).is_sound


def test_a_descriptor_less_does_not_cost_a_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(path, segment_bytes=1)

    def refuse(*_: object) -> int:
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(log, "_create", refuse)
    assert log.append(stamped(an_exit())).count == 1
    monkeypatch.undo()
    assert log.append(stamped(an_exit())).count == 1
    log.close()

    assert [segment.name for segment in segments(path)][1:] == [
        "audit-00000002.jsonl",
        "audit-00000003.jsonl",
    ]
    assert verify(path).is_sound


def test_a_new_log_begins_at_the_origin(path: Path) -> None:
    log = open_log(path)
    log.close()

    assert records(path)[0]["prev"] == ORIGIN.sha256
    assert log.last == Anchor(2, verify(path).last.sha256)


def test_new_segment_is_made_in_the_directory_that_was_opened(tmp_path: Path) -> None:
    directory, outside = tmp_path / "audit", tmp_path / "outside"
    outside.mkdir()
    log = open_log(directory, segment_bytes=1)
    directory.rename(tmp_path / "moved")
    directory.symlink_to(outside)
    assert log.append(stamped(a_start(), an_exit())).error is None
    log.close()
    assert list(outside.iterdir()) == []
    assert len(segments(tmp_path / "moved")) > 1

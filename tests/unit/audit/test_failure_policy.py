"""What becomes of events while the log can't be written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.audit.failure_policy import PolicyLog
from paddock.audit.log import AuditLog
from paddock.audit.redaction import Redactor
from paddock.audit.segment import verify
from paddock.model.audit_failure import AuditFailure
from tests.unit.audit.logs import a_start, an_exit, full_disk, open_log, segments, stamped


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    log = open_log(path, segment_bytes=10**6)
    yield log
    log.close()
    assert verify(path).is_sound


def told(path: Path) -> list[dict[str, Any]]:
    (segment,) = segments(path)
    return [json.loads(line) for line in segment.read_bytes().splitlines()[1:]]


def test_secrets_are_taken_out(path: Path, log: AuditLog) -> None:
    PolicyLog(log, Redactor(), AuditFailure.STOP).write(stamped(a_start("p", "--token", "zq7")))

    assert told(path)[0]["argv"] == ["ls", "--token", "[redacted]"]


def test_a_stopped_log_keeps_what_ends_something_and_counts_the_rest(path: Path, log: AuditLog) -> None:
    policy_log = PolicyLog(log, Redactor(), AuditFailure.STOP)
    with full_disk(path, 0):
        first = policy_log.write(stamped(a_start("a"), an_exit("b")))
        second = policy_log.write(stamped(an_exit("c"), a_start("d")))
        assert policy_log.is_failing
    assert (first.count, first.failure) == (0, "File too large")
    assert (second.count, policy_log.kept, policy_log.lost) == (0, 2, 2)

    third = policy_log.write(stamped(a_start("e")))

    assert (
        third.count,
        third.failure,
        policy_log.is_failing,
        policy_log.kept,
        policy_log.lost,
    ) == (1, None, False, 0, 0)
    assert [(line["kind"], line.get("process"), line.get("lost")) for line in told(path)] == [
        ("resumed", None, 2),
        ("exit", "b", None),
        ("exit", "c", None),
        ("start", "e", None),
    ]


def test_a_log_that_must_not_stop_anything_counts_all_that_is_lost(path: Path, log: AuditLog) -> None:
    policy_log = PolicyLog(log, Redactor(), AuditFailure.CONTINUE)
    with full_disk(path, 0):
        for _ in range(3):
            policy_log.write(stamped(a_start(), an_exit()))
    assert (policy_log.kept, policy_log.lost) == (0, 6)

    policy_log.write([])

    assert [(line["kind"], line["lost"], line["reason"]) for line in told(path)] == [
        ("resumed", 6, "File too large")
    ]


def test_what_was_written_before_the_disk_was_full_is_not_written_again(path: Path, log: AuditLog) -> None:
    policy_log = PolicyLog(log, Redactor(), AuditFailure.STOP)
    with full_disk(path, 250):
        written = policy_log.write(stamped(an_exit("a"), an_exit("b")))
    assert written.count == 1
    assert policy_log.kept == 1

    policy_log.write([])
    report = verify(path)

    assert report.is_sound
    assert len(report.notes) == 1
    assert segments(path)[0].read_bytes().count(b'"process":"b"') >= 1
    assert report.records == 4

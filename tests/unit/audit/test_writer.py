"""The log as a server uses it: order, waiting, refusal, and an orderly end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from paddock.audit.event import Event
from paddock.audit.failure_policy import PolicyLog
from paddock.audit.redaction import LARGE_CHARS, LARGE_ITEMS, Redactor
from paddock.audit.segment import verify
from paddock.audit.writer import QUEUE_LIMIT, Audit, AuditOptions
from paddock.errors import AuditLogError, AuditUnwritable
from paddock.model.audit_failure import AuditFailure
from tests.unit.audit.logs import a_start, an_exit, full_disk, segments


@asynccontextmanager
async def audit_at(directory: Path, failure: AuditFailure = AuditFailure.STOP) -> AsyncIterator[Audit]:
    options = AuditOptions(
        directory=directory,
        segment_limit_bytes=10**6,
        is_synced=False,
        failure=failure,
        secret_names=(),
        version="1.2.3",
    )
    audit = await Audit.open(options)
    try:
        yield audit
    finally:
        await audit.aclose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def told(path: Path) -> list[dict[str, Any]]:
    (segment,) = segments(path)
    return [json.loads(line) for line in segment.read_bytes().splitlines()]


async def test_a_commit_returns_once_its_record_is_in_the_log(path: Path) -> None:
    async with audit_at(path) as audit:
        await audit.commit(a_start("build"))
        assert told(path)[-1]["process"] == "build"


async def test_a_large_event_is_redacted_where_only_its_caller_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str | None, str] = {}
    original = Redactor.redact

    def redact(self: Redactor, event: Event) -> Event:
        assert event.process not in threads, "an event is redacted once"
        threads[event.process] = threading.current_thread().name
        return original(self, event)

    monkeypatch.setattr(Redactor, "redact", redact)
    large = structs.replace(a_start("large"), argv=("sh",) * (LARGE_ITEMS + 1))
    long = structs.replace(a_start("long"), argv=("x" * (LARGE_CHARS + 1),))
    async with audit_at(path) as audit:
        for event in (a_start("small"), large, long):
            await audit.commit(event)

    assert [line["process"] for line in told(path)[1:-1]] == ["small", "large", "long"]
    assert threads.pop("small") == "paddock-audit"
    assert "paddock-audit" not in threads.values()


async def test_records_are_written_in_the_order_of_the_calls_and_none_is_lost_at_the_end(path: Path) -> None:
    async with audit_at(path) as audit:
        for number in range(3000):
            audit.record(an_exit(f"p{number}"))

    assert [line["process"] for line in told(path)[1:-1]] == [f"p{number}" for number in range(3000)]
    assert [told(path)[at]["kind"] for at in (0, -1)] == ["opened", "closed"]
    assert verify(path).is_sound


async def test_many_commits_at_once_are_written_together(path: Path) -> None:
    async with audit_at(path) as audit:
        await asyncio.gather(*(audit.commit(a_start(f"p{number}")) for number in range(500)))

    assert verify(path).records == 502


async def test_whoever_tells_at_will_waits_until_the_disk_has_caught_up(path: Path) -> None:
    async with audit_at(path) as audit:
        for number in range(QUEUE_LIMIT):
            audit.record(an_exit(f"p{number}"))
        was_full = not audit.has_room
        await audit.drain()
        assert was_full
        assert audit.has_room


async def test_a_commit_that_cannot_be_written_is_refused_and_exits_come_later(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with audit_at(path) as audit:
        with full_disk(path, 0):
            with pytest.raises(AuditUnwritable, match="can't be written: File too large; nothing is started"):
                await audit.commit(a_start("refused"))
            audit.record(an_exit("kept"))
            with pytest.raises(AuditUnwritable):
                await audit.commit(a_start("refused"))
            assert audit.has_room
        await audit.commit(a_start("welcome"))

    assert [(line["kind"], line.get("process")) for line in told(path)[1:]] == [
        ("resumed", None),
        ("exit", "kept"),
        ("start", "welcome"),
        ("closed", None),
    ]
    assert [record.getMessage() for record in caplog.records] == [
        'audit log can\'t be written reason="File too large" policy=stop',
        'audit log can be written again reason="File too large"',
    ]


async def test_a_log_that_must_not_stop_anything_lets_go_on(path: Path) -> None:
    async with audit_at(path, AuditFailure.CONTINUE) as audit:
        with full_disk(path, 0):
            await audit.commit(a_start("unrecorded"))
        await audit.commit(a_start("recorded"))

    assert [(line["kind"], line.get("lost")) for line in told(path)[1:-1]] == [
        ("resumed", 1),
        ("start", None),
    ]


async def test_a_disk_that_is_full_to_the_end_costs_records_and_says_how_many(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with audit_at(path) as audit:
        with full_disk(path, 0):
            audit.record(an_exit("lost"))
            await audit.aclose()

    assert 'audit records lost count=1 reason="File too large"' in caplog.text
    assert verify(path).is_sound


async def test_nothing_is_committed_after_the_end(path: Path) -> None:
    async with audit_at(path) as audit:
        pass
    audit.record(an_exit("late"))

    with pytest.raises(AuditUnwritable, match="it was closed"):
        await audit.commit(a_start())
    assert verify(path).records == 2


async def test_a_writer_that_fails_by_itself_refuses_instead_of_waiting(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with audit_at(path) as audit:

        def fail(*_: object) -> None:
            raise ValueError("a fault of ours")

        monkeypatch.setattr(PolicyLog, "write", fail)
        with pytest.raises(AuditUnwritable, match="its writer failed: ValueError"):
            await audit.commit(a_start())
        with pytest.raises(AuditUnwritable):
            await audit.commit(a_start())

    assert "audit log failed" in caplog.text
    async with audit_at(path) as successor:
        assert successor.condition.last_seq == 2


async def test_a_fault_of_the_writer_stops_nothing_where_the_settings_say_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault of ours")

    async with audit_at(path, AuditFailure.CONTINUE) as audit:
        monkeypatch.setattr(PolicyLog, "write", fail)
        await audit.commit(a_start())
        await audit.commit(a_start())
        assert audit.condition.is_failing


async def test_a_log_that_cannot_be_opened_is_an_error() -> None:
    with pytest.raises(AuditLogError, match="can't be opened: Not a directory"):
        async with audit_at(Path("/dev/null/log")):
            pass

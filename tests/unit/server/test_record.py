"""What is written down of a session, and what is not."""

from __future__ import annotations

import logging

import pytest

from paddock.audit.event import Denial, Event, Exit
from paddock.audit.writer import Audit
from paddock.model import denial as model
from paddock.model.denial import DenialKind
from paddock.process.description import Description
from paddock.process.enclosure import Judgement
from paddock.process.managed import ManagedProcess
from paddock.process.output_log import Chunk, Gap
from paddock.process.spawner import ExitReport
from paddock.server.metrics import Ending, Metrics
from paddock.server.record import SessionRecord, shown_id

SESSION_ID = "0f3a9c2e-52a8-4f0e-9a55-3e1f6a0f9d11"
SIGNALLED, FAILED = 9, 3 << 8
"""Wait statuses: death by signal 9, and exit with status 3 (wait(2))."""


class Nobody:
    """A listener that hears nothing."""

    def process_output(self, process: ManagedProcess, chunk: Chunk) -> None:
        pass

    def process_exited(self, process: ManagedProcess, seq: int) -> None:
        pass

    def process_closed(self, process: ManagedProcess, seq: int) -> None:
        pass

    def process_lost(self, process: ManagedProcess) -> None:
        pass


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def record(metrics: Metrics) -> SessionRecord:
    return SessionRecord(SESSION_ID, metrics)


def a_process(*argv: str, wait_status: int | None = None) -> ManagedProcess:
    description = Description(process_id="p", argv=argv or ("ls",), cwd="/", is_terminal=False)
    process = ManagedProcess(description, Nobody(), 4096)
    process.begin()
    if wait_status is not None:
        process.exited(ExitReport(wait_status, 0.0, 0.0, 0))
    return process


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_arguments_are_written_down_at_the_level_debug_alone(
    record: SessionRecord, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level)

    record.started(a_process("/usr/bin/curl", "-u", "me:hunter2"), 0.001, 4, "r-7")

    assert caplog.messages[0] == (
        "process started session=0f3a9c2e connection=4 request=r-7 process=p pid=0 program=curl arguments=2 "
        "terminal=no duration_s=0.001"
    )
    assert ("hunter2" in caplog.text) == (level == logging.DEBUG)


def test_what_is_shown_of_a_session_id_does_not_open_the_session() -> None:
    assert shown_id(SESSION_ID) == "0f3a9c2e"


@pytest.mark.parametrize(
    ("wait_status", "ending"),
    [(0, Ending.SUCCESS), (FAILED, Ending.FAILURE), (SIGNALLED, Ending.SIGNAL)],
)
async def test_an_exit_counts_as_what_it_was(
    record: SessionRecord, metrics: Metrics, wait_status: int, ending: Ending
) -> None:
    record.exited(a_process(wait_status=wait_status))

    assert {kind for kind, count in metrics.endings.items() if count} == {ending}


async def test_a_lost_process_is_a_warning_and_an_ending_of_its_own(
    record: SessionRecord, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    process = a_process()
    process.lose("the spawner is gone")

    record.lost(process)

    assert metrics.endings[Ending.LOST] == 1
    assert [entry.levelname for entry in caplog.records] == ["WARNING"]
    assert 'reason="the spawner is gone"' in caplog.text


async def test_a_gap_counts_with_its_bytes(record: SessionRecord, metrics: Metrics) -> None:
    record.gap(a_process(), Gap(from_seq=2, to_seq=9, size_bytes=500))
    record.gap(a_process(), Gap(from_seq=2, to_seq=11, size_bytes=700))

    assert (metrics.gaps, metrics.gap_bytes) == (2, 1200)


class Told(Audit):
    """An audit log that keeps in memory what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        self.events.append(event)


class Behind(Told):
    """An audit log whose disk does not keep up until somebody waits for it."""

    has_caught_up = False

    @property
    def has_room(self) -> bool:
        return self.has_caught_up

    async def drain(self) -> None:
        self.has_caught_up = True


async def test_an_answer_waits_for_an_audit_log_that_is_behind(metrics: Metrics) -> None:
    audit = Behind()
    record = SessionRecord(SESSION_ID, metrics, audit)

    answer = record.paced("the answer")

    assert not isinstance(answer, str)
    assert (await answer, audit.has_caught_up) == ("the answer", True)
    assert record.paced("the next") == "the next"


async def test_nothing_waits_without_an_audit_log(record: SessionRecord) -> None:
    assert record.paced("the answer") == "the answer"
    await record.drain()


async def test_what_a_sandbox_denied_is_told_before_the_exit(metrics: Metrics) -> None:
    audit = Told()
    process = a_process(wait_status=FAILED)
    certain = model.Denial(DenialKind.WRITE, "/etc/x", "/ = read", is_certain=True)
    guessed = model.Denial(DenialKind.NETWORK, None, None, is_certain=False)
    process.judgement = Judgement(is_denied=True, denials=(certain, guessed))

    SessionRecord(SESSION_ID, metrics, audit).exited(process)

    session = shown_id(SESSION_ID)
    assert audit.events == [
        Denial(session=session, process="p", operation="write", subject="/etc/x", reason="/ = read"),
        Denial(session=session, process="p", operation="network", certain=False),
        Exit(session=session, process="p", pid=0, exit_code=3, cause="exit", sandbox_denied=True),
    ]

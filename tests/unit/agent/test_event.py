"""Events of an agent, as values, as lines and for slow readers."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from paddock.agent.event import (
    WAITING_DELTAS_LIMIT,
    WAITING_EVENTS_LIMIT,
    WAITING_TEXT_LIMIT,
    AgentEvent,
    ApprovalAnswered,
    ApprovalAsked,
    DeltasMissed,
    EventHub,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    ReaderOverrun,
    TerminalInteraction,
)

BEGIN = ExecCommandBegin(
    call_id="c",
    process_id="1000",
    started_at_ms=5,
    command=("sh", "-c", "x"),
    cwd="/",
    attempt=1,
    is_sandboxed=True,
)
EVENTS: list[AgentEvent] = [
    BEGIN,
    ExecCommandOutputDelta(call_id="c", chunk=b"\xff\n"),
    TerminalInteraction(call_id="c", process_id="1000", stdin="\x03\n"),
    ExecCommandEnd(
        call_id="c",
        process_id="1000",
        started_at_ms=5,
        completed_at_ms=9,
        command=("sh", "-c", "x"),
        cwd="/",
        attempt=1,
        is_sandboxed=True,
        exit_code=0,
        aggregated_output="ä\n",
        stdout="ä\n",
        stderr="",
        formatted_output="ä\n",
        duration_s=0.004,
        status="completed",
    ),
    ApprovalAsked(
        call_id="c", approval_id="a", started_at_ms=1, command=("x",), cwd="/", reason="r", changes=("y",)
    ),
    ApprovalAnswered(call_id="c", approval_id="a", decision="denied", reason="no"),
    DeltasMissed(count=3),
    ReaderOverrun(),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_event_is_one_line_of_json_and_comes_back_the_same(event: AgentEvent) -> None:
    line = event.to_json()
    assert "\n" not in line
    assert "type" in json.loads(line)
    assert AgentEvent.from_json(line) == event


async def test_every_reader_gets_what_happens_from_its_beginning() -> None:
    hub = EventHub()
    first = hub.reader()
    hub.emit(EVENTS[0])
    second = hub.reader()
    hub.emit(EVENTS[2])
    hub.close()
    assert [event async for event in first] == [EVENTS[0], EVENTS[2]]
    assert [event async for event in second] == [EVENTS[2]]
    assert [event async for event in hub.reader()] == []


async def test_slow_reader_misses_output_and_is_told_how_much() -> None:
    hub = EventHub()
    reader = hub.reader()
    delta = ExecCommandOutputDelta(call_id="c", chunk=b"x")
    for _ in range(WAITING_DELTAS_LIMIT + 7):
        hub.emit(delta)
    hub.emit(BEGIN)
    hub.close()
    told = [event async for event in reader]
    assert told == [*[delta] * WAITING_DELTAS_LIMIT, DeltasMissed(count=7), BEGIN]


async def test_reader_that_does_not_read_is_cut_off_and_told() -> None:
    hub = EventHub()
    reader = hub.reader()
    for _ in range(WAITING_EVENTS_LIMIT + 9):
        hub.emit(BEGIN)
    assert not hub.is_read
    told = [event async for event in reader]
    assert told == [*[BEGIN] * WAITING_EVENTS_LIMIT, ReaderOverrun()]


async def test_output_of_ended_commands_that_waits_for_a_reader_is_bounded() -> None:
    hub = EventHub()
    reader = hub.reader()
    end = EVENTS[3]
    assert isinstance(end, ExecCommandEnd)
    long = replace(end, aggregated_output="x" * (WAITING_TEXT_LIMIT // 4))
    for _ in range(9):
        hub.emit(long)
    assert isinstance([event async for event in reader][-1], ReaderOverrun)


async def test_reader_that_is_closed_or_let_go_of_gets_nothing_more() -> None:
    hub = EventHub()
    closed, dropped = hub.reader(), hub.reader()
    hub.emit(BEGIN)
    closed.close()
    hub.emit(BEGIN)
    assert [event async for event in closed] == [BEGIN]
    assert hub.is_read
    del dropped
    assert not hub.is_read

from __future__ import annotations

import asyncio

import pytest

from paddock.client.flow_control import FlowControl, FlowLimits
from paddock.client.inbox import Inbox, Output
from paddock.errors import OutputOverrun, ProcessLost
from paddock.model.stream import Stream
from paddock.protocol.process_event import ClosedEvent, ExitedEvent, OutputEvent


def make() -> tuple[Inbox, FlowControl[Inbox]]:
    flow_control: FlowControl[Inbox] = FlowControl(FlowLimits(), lambda _: None)
    return Inbox("p", flow_control), flow_control


def output(seq: int, data: bytes = b"x") -> OutputEvent:
    return OutputEvent(process_id="p", seq=seq, stream=Stream.STDOUT, chunk=data)


def exited(seq: int, code: int = 0) -> ExitedEvent:
    return ExitedEvent(process_id="p", seq=seq, exit_code=code, sandbox_denied=False)


def closed(seq: int) -> ClosedEvent:
    return ClosedEvent(process_id="p", seq=seq)


async def test_the_exit_is_known_at_once_even_if_output_before_it_is_missing() -> None:
    inbox, _ = make()
    inbox.receive(exited(3, 7))
    assert (await inbox.exited()).exit_code == 7
    assert not inbox.is_closed


async def test_the_process_is_closed_only_when_everything_before_has_arrived() -> None:
    inbox, _ = make()
    inbox.receive(closed(3))
    inbox.receive(exited(2))
    was_closed = inbox.is_closed
    inbox.receive(output(1))
    assert (was_closed, inbox.is_closed) == (False, True)
    assert await inbox.next_output() == Output(Stream.STDOUT, b"x")
    assert await inbox.next_output() is None
    assert await inbox.next_output() is None


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    inbox, _ = make()
    reading = asyncio.create_task(inbox.next_output())
    await asyncio.sleep(0)
    inbox.receive(output(1, b"first"))
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await inbox.next_output() == Output(Stream.STDOUT, b"first")


async def test_what_arrived_before_a_failure_can_be_read_and_then_the_failure_is_raised() -> None:
    inbox, _ = make()
    inbox.receive(output(1, b"kept"))
    inbox.fail(ProcessLost("p", "gone"))
    assert await inbox.next_output() == Output(Stream.STDOUT, b"kept")
    for _ in range(2):
        with pytest.raises(ProcessLost, match="gone"):
            await inbox.next_output()
    with pytest.raises(ProcessLost, match="gone"):
        await inbox.exited()


async def test_an_exit_that_was_seen_stays_known_when_the_connection_is_lost() -> None:
    inbox, _ = make()
    inbox.receive(exited(1, 3))
    inbox.fail(ProcessLost("p", "gone"))
    assert (await inbox.exited()).exit_code == 3
    with pytest.raises(ProcessLost):
        await inbox.next_output()


async def test_an_overrun_frees_the_memory_and_is_told_to_whoever_reads() -> None:
    inbox, flow_control = make()
    inbox.receive(output(1, b"dropped"))
    inbox.overrun()
    inbox.receive(output(2, b"not kept"))
    inbox.receive(exited(3))
    inbox.receive(closed(4))
    assert flow_control.holders == []
    assert (await inbox.exited()).exit_code == 0
    with pytest.raises(OutputOverrun, match="'p' was dropped"):
        await inbox.next_output()


async def test_every_waiter_is_woken() -> None:
    inbox, _ = make()
    async with asyncio.TaskGroup() as tasks:
        waits = [tasks.create_task(inbox.exited()) for _ in range(3)]
        await asyncio.sleep(0)
        inbox.receive(exited(1, 9))
    assert [wait.result().exit_code for wait in waits] == [9, 9, 9]


async def test_unread_output_is_accounted_for_until_it_is_read() -> None:
    inbox, flow_control = make()
    inbox.receive(output(1, b"12345"))
    inbox.receive(output(2, b"123"))
    assert flow_control.unread_of(inbox) == 8
    await inbox.next_output()
    assert flow_control.unread_of(inbox) == 3
    inbox.discard()
    assert flow_control.holders == []

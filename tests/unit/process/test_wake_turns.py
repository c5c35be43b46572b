"""Waiters are woken in turns that all processes share, and none is forgotten."""

from __future__ import annotations

import asyncio

from paddock.process.description import Description
from paddock.process.managed import ManagedProcess
from paddock.process.wake_turns import WOKEN_PER_TURN, WOKEN_TOGETHER, WakeTurns
from tests.unit.process.test_managed import Nobody


def waiters(count: int) -> list[asyncio.Future[None]]:
    loop = asyncio.get_running_loop()
    return [loop.create_future() for _ in range(count)]


def woken(*groups: list[asyncio.Future[None]]) -> list[int]:
    return [sum(waiter.done() for waiter in group) for group in groups]


async def test_few_are_woken_at_once() -> None:
    turns, few = WakeTurns(), waiters(3)
    few[1].cancel()
    turns.wake(few)
    assert woken(few) == [3]


async def test_all_events_of_a_turn_together_wake_a_bounded_number() -> None:
    turns = WakeTurns()
    events = [waiters(100) for _ in range(10)]
    for event in events:
        turns.wake(event)
    done = sum(woken(*events))
    assert done == WOKEN_PER_TURN
    while done < 1000:
        await asyncio.sleep(0)
        before, done = done, sum(woken(*events))
        assert 0 < done - before <= WOKEN_PER_TURN


async def test_event_with_many_waiters_does_not_hold_up_another() -> None:
    turns, many, few = WakeTurns(), waiters(10 * WOKEN_PER_TURN), waiters(WOKEN_TOGETHER)
    turns.wake(many)
    turns.wake(few)
    assert woken(few) == [0]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert woken(few) == [WOKEN_TOGETHER]


async def test_deadlines_of_one_moment_are_met_in_turns_too() -> None:
    turns = WakeTurns()
    loop = asyncio.get_running_loop()
    processes = [process_of(turns) for _ in range(3)]
    now_s = loop.time()
    waits = [asyncio.create_task(process.changed(now_s)) for process in processes for _ in range(200)]
    # The first lets the waits begin, and the others are those of the timers, in which the waits go on.
    counts = []
    while not all(wait.done() for wait in waits):
        await asyncio.sleep(0)
        counts.append(sum(wait.done() for wait in waits))
    steps = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    assert max(steps) <= WOKEN_PER_TURN
    assert not any(process._waiters for process in processes)


def process_of(turns: WakeTurns) -> ManagedProcess:
    return ManagedProcess(Description("p", ["/bin/true"], "/", False), Nobody(), 1000, turns)

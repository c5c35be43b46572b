"""Time that stands still while somebody is asked."""

from __future__ import annotations

import asyncio

import pytest

from paddock.agent.yield_clock import YieldClock


async def test_limit_ends_a_wait_without_an_error() -> None:
    async with YieldClock().limit(0.0):
        await asyncio.Event().wait()


async def test_question_stops_the_time_of_waits_that_are_under_way_and_of_new_ones() -> None:
    clock = YieldClock()
    entered = asyncio.Event()

    async def wait() -> None:
        async with clock.limit(0.05):
            entered.set()
            await asyncio.Event().wait()

    before = asyncio.create_task(wait())
    await entered.wait()
    with clock.asking(), clock.asking():
        after = asyncio.create_task(wait())
        done, _ = await asyncio.wait((before, after), timeout=0.2)
        assert not done
        assert not clock.has_run_for(0.0)
    assert clock.has_run_for(0.0)
    assert not clock.has_run_for(60.0)
    await asyncio.gather(before, after)


async def test_timeout_of_somebody_else_is_not_swallowed() -> None:
    with pytest.raises(TimeoutError):
        async with YieldClock().limit(60.0):
            raise TimeoutError


async def test_question_behind_the_end_of_a_wait_changes_nothing() -> None:
    clock = YieldClock()
    async with clock.limit(0.0):
        await asyncio.Event().wait()
    with clock.asking():
        pass

"""Memory for large answers: order, limits, and who gives it back."""

from __future__ import annotations

import asyncio

import pytest

from paddock.server.memory_budget import Grant, MemoryBudget, take_all


async def waiting(task: asyncio.Task[Grant]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


async def free_bytes(budget: MemoryBudget, at_most: int = 10) -> int:
    """How many bytes are granted at once, found out by asking for them."""
    for size in range(at_most, 0, -1):
        asking = asyncio.create_task(take_all(size, budget))
        if not await waiting(asking):
            asking.result().release()
            return size
        asking.cancel()
        await asyncio.wait([asking])
    return 0


async def test_what_fits_is_granted_at_once_and_the_rest_in_order() -> None:
    budget = MemoryBudget(10)
    first = await take_all(6, budget)
    second = asyncio.create_task(take_all(6, budget))
    third = asyncio.create_task(take_all(5, budget))
    assert await waiting(second)
    assert await waiting(third)

    first.release()
    await second
    assert await waiting(third)

    (await second).release()
    await third
    assert await free_bytes(budget) == 5


async def test_what_fits_does_not_wait_for_what_does_not() -> None:
    budget = MemoryBudget(10)
    held = await take_all(6, budget)
    large = asyncio.create_task(take_all(6, budget))
    assert await waiting(large)
    small = await take_all(4, budget)
    assert not large.done()
    held.release()
    await large
    small.release()
    assert await free_bytes(budget) == 4


async def test_in_order_nothing_overtakes_what_waits() -> None:
    budget = MemoryBudget(10, is_in_order=True)
    held = await take_all(6, budget)
    large = asyncio.create_task(take_all(100, budget))
    assert await waiting(large)
    small = asyncio.create_task(take_all(1, budget))
    assert await waiting(small)
    held.release()
    (await large).release()
    (await small).release()
    assert await free_bytes(budget) == 10


async def test_more_than_there_is_is_granted_alone() -> None:
    budget = MemoryBudget(10)
    small = await take_all(1, budget)
    large = asyncio.create_task(take_all(100, budget))
    assert await waiting(large)

    small.release()
    (await large).release()

    assert await free_bytes(budget) == 10


async def test_a_grant_is_given_back_once() -> None:
    budget = MemoryBudget(10)
    grant = await take_all(5, budget)

    grant.release()
    grant.release()

    assert await free_bytes(budget) == 10


@pytest.mark.parametrize("is_granted_first", [False, True])
async def test_who_gives_up_waiting_takes_nothing(is_granted_first: bool) -> None:
    near, far = MemoryBudget(10), MemoryBudget(10)
    holding = await take_all(10, far)
    giving_up = asyncio.create_task(take_all(5, near, far))
    assert await waiting(giving_up)
    assert await free_bytes(near) == 5

    if is_granted_first:
        holding.release()
    giving_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await giving_up
    holding.release()

    assert (await free_bytes(near), await free_bytes(far)) == (10, 10)


async def test_who_gives_up_waiting_holds_up_nobody() -> None:
    budget = MemoryBudget(10)
    first = await take_all(6, budget)
    giving_up = asyncio.create_task(take_all(6, budget))
    second = asyncio.create_task(take_all(5, budget))
    assert await waiting(giving_up)
    assert await waiting(second)

    giving_up.cancel()
    first.release()

    assert not await waiting(second)

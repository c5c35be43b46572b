"""Memory for large answers: order, limits, and who gives it back."""

from __future__ import annotations

import asyncio

import pytest

from paddock.server.room import Grant, Room, take_all


async def waiting(task: asyncio.Task[Grant]) -> bool:
    for _ in range(5):
        await asyncio.sleep(0)
    return not task.done()


async def test_what_fits_is_granted_at_once_and_the_rest_in_order() -> None:
    room = Room(10)
    first = await take_all(6, room)
    second = asyncio.create_task(take_all(6, room))
    third = asyncio.create_task(take_all(1, room))
    assert await waiting(second)
    # It would fit, and does not overtake.
    assert not third.done()

    first.release()
    await second
    await third

    assert room.used_bytes == 7


async def test_more_than_there_is_is_granted_alone() -> None:
    room = Room(10)
    small = await take_all(1, room)
    large = asyncio.create_task(take_all(100, room))
    assert await waiting(large)

    small.release()
    (await large).release()

    assert room.used_bytes == 0


async def test_a_grant_is_given_back_once() -> None:
    room = Room(10)
    grant = await take_all(5, room)

    grant.release()
    grant.release()

    assert room.used_bytes == 0


@pytest.mark.parametrize("is_granted_first", [False, True])
async def test_who_gives_up_waiting_takes_nothing(is_granted_first: bool) -> None:
    near, far = Room(10), Room(10)
    holding = await take_all(10, far)
    giving_up = asyncio.create_task(take_all(5, near, far))
    assert await waiting(giving_up)
    assert near.used_bytes == 5

    if is_granted_first:
        holding.release()
    giving_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await giving_up
    holding.release()

    assert (near.used_bytes, far.used_bytes) == (0, 0)

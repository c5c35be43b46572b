"""Each client has one turn at a time, and nobody waits for another's."""

from __future__ import annotations

import asyncio

import pytest

from paddock.server.client_turns import ClientTurns


async def test_a_client_waits_for_its_own_turn_and_for_nobody_elses() -> None:
    turns = ClientTurns()
    await turns.take(1)
    second = asyncio.create_task(turns.take(1))
    await turns.take(2)
    turns.give_back(2)
    assert not second.done()
    turns.give_back(1)
    await second
    turns.give_back(1)


async def test_who_gives_up_waiting_keeps_nobody_from_its_turn() -> None:
    turns = ClientTurns()
    await turns.take(1)
    second = asyncio.create_task(turns.take(1))
    third = asyncio.create_task(turns.take(1))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    turns.give_back(1)
    await third
    turns.give_back(1)
    assert not turns._locks
    assert not turns._asking

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from paddock.errors import ConnectionLost
from paddock.sync.portal import Portal


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def add(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


def test_a_call_gives_what_the_coroutine_returns(portal: Portal) -> None:
    assert portal.call(add(1, 2)) == 3


def test_a_call_raises_what_the_coroutine_raises(portal: Portal) -> None:
    async def fail() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        portal.call(fail())


def test_calls_of_many_threads_run_side_by_side(portal: Portal) -> None:
    everybody = asyncio.Barrier(8)

    async def meet(number: int) -> int:
        await everybody.wait()
        return number

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(lambda n: portal.call(meet(n)), range(8))) == list(range(8))


def test_a_call_from_inside_is_refused_and_does_not_hang(portal: Portal) -> None:
    async def call_from_inside() -> None:
        portal.call(add(1, 2))

    with pytest.raises(RuntimeError, match="would never return"):
        portal.call(call_from_inside())


async def test_it_works_where_a_loop_runs_already() -> None:
    portal = Portal()
    try:
        assert portal.call(add(1, 2)) == 3
    finally:
        portal.close()


def test_closing_ends_the_thread_and_what_still_runs(portal: Portal) -> None:
    running = threading.Event()

    async def wait_for_ever() -> None:
        running.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(lambda: portal.call(wait_for_ever()))
        running.wait()
        portal.close()
        with pytest.raises(ConnectionLost):
            call.result()
    assert not portal.is_open
    portal.close()
    with pytest.raises(ConnectionLost, match="closed on this side"):
        portal.call(add(1, 2))

"""Threads for blocking work: order, growth, results and the end."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator
from functools import partial

import pytest

from paddock.errors import OperationFailed
from paddock.fs.lane import REPORTED_PER_TURN, Lane

THREADS = 3


@pytest.fixture
async def lane() -> AsyncIterator[Lane]:
    lane = Lane("test", THREADS)
    yield lane
    await lane.aclose()


async def test_short_jobs_are_done_in_order_by_one_thread(lane: Lane) -> None:
    done: list[tuple[int, str]] = []

    def job(number: int) -> int:
        done.append((number, threading.current_thread().name))
        return number

    results = await asyncio.gather(*(lane.submit(partial(job, number)) for number in range(100)))

    assert results == list(range(100))
    assert [number for number, _ in done] == results
    assert threading.current_thread().name not in {name for _, name in done}


async def test_a_job_that_hangs_delays_no_other(lane: Lane) -> None:
    hanging = [threading.Event() for _ in range(THREADS - 1)]
    stuck = [lane.submit(event.wait) for event in hanging]

    assert await lane.submit(lambda: "done") == "done"

    for event in hanging:
        event.set()
    assert await asyncio.gather(*stuck) == [True] * len(stuck)


async def test_a_job_is_waited_for_as_long_as_others_come_to_an_end(lane: Lane) -> None:
    turns = [threading.Event() for _ in range(THREADS)]
    before = [lane.submit(turn.wait) for turn in turns]
    patient = asyncio.ensure_future(lane.done(lambda: "done", stuck_s=60))
    for turn in turns:
        turn.set()
    assert await patient == "done"
    assert await asyncio.gather(*before) == [True] * THREADS


async def test_a_job_behind_others_that_hang_is_given_up_and_never_done(lane: Lane) -> None:
    gate = threading.Event()
    hanging = [lane.submit(gate.wait) for _ in range(THREADS)]
    done: list[str] = []
    with pytest.raises(TimeoutError):
        await lane.done(lambda: done.append("done"), stuck_s=0.01)
    gate.set()
    assert await asyncio.gather(*hanging) == [True] * THREADS
    assert await lane.submit(lambda: "next") == "next"
    assert done == []


async def test_a_result_does_not_wait_for_the_next_job(lane: Lane) -> None:
    gate = threading.Event()
    first = lane.submit(lambda: "first")
    second = lane.submit(gate.wait)

    assert await first == "first"
    assert not second.done()
    gate.set()
    await second


async def test_an_error_is_the_caller_s(lane: Lane) -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await lane.submit(fail)
    assert await lane.submit(lambda: 1) == 1


async def test_what_was_cancelled_before_it_began_is_not_done(lane: Lane) -> None:
    gates = [threading.Event() for _ in range(THREADS)]
    stuck = [lane.submit(gate.wait) for gate in gates]
    done: list[str] = []
    cancelled = lane.submit(lambda: done.append("cancelled"))
    kept = lane.submit(lambda: done.append("kept"))
    cancelled.cancel()

    for gate in gates:
        gate.set()
    await asyncio.gather(kept, *stuck)

    assert done == ["kept"]


async def test_the_end_finishes_what_was_submitted_and_ends_the_threads() -> None:
    lane = Lane("ending", THREADS)
    submitted = [lane.submit(lambda: 1) for _ in range(10)]

    await lane.aclose()

    assert [job.result() for job in submitted] == [1] * 10
    for thread in threading.enumerate():
        if thread.name.startswith("ending"):
            thread.join()


WITHOUT_THREADS = """
import asyncio, os, resource
from paddock.errors import OperationFailed
from paddock.fs.lane import REPORTED_PER_TURN, Lane

if os.getuid() == 0:
    # Root is not bound by the limit.
    os.setresuid(65534, 65534, 65534)

async def main():
    lane = Lane("test", 3)
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    for _ in range(3):
        try:
            await lane.submit(lambda: "done")
        except OperationFailed as error:
            print(error)
    print(await lane.submit_surely(lambda: "done here"))
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    print(await lane.submit(lambda: "done there"))
    await lane.aclose()

asyncio.run(main())
"""


async def test_jobs_fail_while_no_thread_can_be_started_and_are_done_when_there_is_room_again() -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WITHOUT_THREADS, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await child.communicate()
    *failed, here, there = said.decode().splitlines()
    assert len(failed) == 3
    assert all("ulimit -u" in line for line in failed)
    assert (here, there) == ("done here", "done there")


async def test_one_turn_hands_on_a_bounded_number_of_results(lane: Lane) -> None:
    gate = threading.Event()
    first = lane.submit(gate.wait)
    lane.submit(gate.wait)
    lane.submit(gate.wait)
    jobs = [lane.submit(lambda: None) for _ in range(1000)]
    # The threads finish everything before the loop looks.
    gate.set()
    while not lane._jobs.empty():
        pass
    done = 0
    await first
    while not all(job.done() for job in jobs):
        now = sum(job.done() for job in jobs)
        # Each thread may have woken the loop, which looks by itself after its patience, and goes on.
        assert now - done <= (THREADS + 2) * REPORTED_PER_TURN
        done = now
        await asyncio.sleep(0)


async def test_the_end_of_a_lane_with_work_ends_threads_that_were_started_meanwhile() -> None:
    lane = Lane("closing", THREADS)
    jobs = [lane.submit(partial(time.sleep, 0.03)) for _ in range(2 * THREADS)]
    await lane.aclose()
    assert all(job.done() for job in jobs)
    # Each has said that it ends, and does nothing else.
    for thread in threading.enumerate():
        if thread.name.startswith("closing"):
            thread.join(timeout=10)
            assert not thread.is_alive()


async def test_a_closed_lane_does_only_what_must_be_done() -> None:
    lane = Lane("closed", THREADS)
    await lane.aclose()
    assert await lane.submit_surely(lambda: 1) == 1
    with pytest.raises(OperationFailed):
        await lane.submit(lambda: 1)


async def test_a_closed_lane_starts_no_threads_while_a_last_job_takes_long() -> None:
    lane = Lane("last", THREADS)
    has_begun, gate = threading.Event(), threading.Event()

    def last() -> bool:
        has_begun.set()
        return gate.wait()

    job = lane.submit(last)
    await asyncio.to_thread(has_begun.wait)
    closing = asyncio.ensure_future(lane.aclose())
    await asyncio.sleep(0)
    lane._look_after()
    lane._look_after()
    assert lane._threads == 1
    gate.set()
    await closing
    assert await job

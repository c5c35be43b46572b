"""Steps of long work, shared out among the turns of the loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from paddock.fs.step_scheduler import STEPS_PER_TURN, StepScheduler


async def test_all_long_work_together_takes_a_bounded_number_of_steps_in_each_turn() -> None:
    scheduler, turn, steps = StepScheduler(), 0, Counter[int]()

    def work(count: int) -> Iterator[None]:
        for _ in range(count):
            steps[turn] += 1
            yield

    tasks = [asyncio.create_task(scheduler.run(work(1000))) for _ in range(5)]
    while not all(task.done() for task in tasks):
        turn += 1
        await asyncio.sleep(0)
    assert steps.total() == 5000
    # One may end its work in the turn in which the next begins.
    assert max(steps.values()) <= 2 * STEPS_PER_TURN


async def test_nobody_has_to_wait_until_the_work_of_another_is_done() -> None:
    scheduler, order = StepScheduler(), list[str]()

    def work(name: str, count: int) -> Iterator[None]:
        for _ in range(count):
            yield
        order.append(name)

    await asyncio.gather(scheduler.run(work("long", 100 * STEPS_PER_TURN)), scheduler.run(work("short", 1)))
    assert order == ["short", "long"]

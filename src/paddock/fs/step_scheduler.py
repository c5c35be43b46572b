"""Shares the event loop among jobs that consist of many small steps.

Work for one client, such as handling thousands of rename notices, must not delay the others. Such a job is an
iterator that yields after every small step. All jobs together get a bounded number of steps in each turn of
the loop, however many clients cause them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

STEPS_PER_TURN = 64
"""Steps in one turn of the loop. A step takes some microseconds, so a turn takes less than a millisecond."""


class StepScheduler:
    """Shares the turns of one loop among several jobs."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, steps: Iterator[None]) -> None:
        """Run all steps, at most STEPS_PER_TURN in one turn of the loop. Raises what a step raises.

        Concurrent callers take turns. A cancelled call does not run the remaining steps.
        """
        while True:
            async with self._turn:
                if sum(1 for _ in islice(steps, STEPS_PER_TURN)) < STEPS_PER_TURN:
                    return
                await asyncio.sleep(0)

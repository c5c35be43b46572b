"""Turns on the event loop, for work that comes in any number of small steps.

What one client causes, such as notices of thousands of renames, must not hold up the others. Such work is an
iterator that yields after every small step. All of it together gets a bounded number of steps in
each turn of the loop, however many clients cause it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

STEPS_PER_TURN = 64
"""Steps between two looks at what else has come. A step takes some microseconds, a turn less than one
millisecond."""


class StepScheduler:
    """Shares the turns of one loop among those who have much to do."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, steps: Iterator[None]) -> None:
        """Carry all steps out, at most STEPS_PER_TURN in one turn of the loop. Raises what a step raises.

        Whoever calls this at the same time takes turns with the others. If it is cancelled, the rest of
        the steps is not carried out.
        """
        while True:
            async with self._turn:
                if sum(1 for _ in islice(steps, STEPS_PER_TURN)) < STEPS_PER_TURN:
                    return
                await asyncio.sleep(0)

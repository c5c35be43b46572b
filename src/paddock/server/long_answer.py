"""Answers that list many processes: made in steps, between which the server turns to everybody else.

Each process is described as it is at its step. What the answers take of the server's memory is granted before
it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paddock.protocol.long_list import LongList
from paddock.server.connection import ClientConnection
from paddock.server.dispatch import Encoded

AT_ONCE: Final = 64
"""Processes that an answer lists at once: as many as there are steps in a turn of the loop."""

PROCESS_BYTES: Final = 12 * 1024
"""The most that is said about a process: its arguments and its directory, 4 KiB each, and its id, 1.5 KiB, as
they are written."""


async def answer_in_steps(
    connection: ClientConnection, answer: LongList, steps: Iterator[None], processes: int
) -> Encoded:
    """Fill in the answer by the steps, each of which writes one of so many processes."""
    grant = await connection.room_for(processes * PROCESS_BYTES)
    try:
        await connection.services.lanes.step_scheduler.run(steps)
        return Encoded(answer.finish(), grant)
    except BaseException:
        grant.release()
        raise

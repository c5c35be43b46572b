"""The memory that the answers to one client take, from the request until they are sent.

A client that does not read keeps its own answers in memory. The larger ones of all clients share a budget:
who finds no room in it for long is told so.
"""

from __future__ import annotations

import asyncio

from paddock.errors import OperationFailed
from paddock.server.memory_budget import Grant, MemoryBudget, take_all

ANSWER_BYTES = 16 * 1024 * 1024
"""File content that one connection may have in memory on its way out: sixteen blocks. One answer may be
larger, if there is room for it among those of all connections."""

LARGE_ANSWERS_BYTES = 1024 * 1024 * 1024
"""Sum of all larger answers of a server; the largest, 512 MiB in base64, is two thirds of it."""

LARGE_ANSWER_WAIT_S = 30.0
"""How long a large answer waits for room. Clients that do not read, and hosts that do not go on sending, hold
what they have for as long as they like. The other large answers of the connection wait for as long, too."""

_NO_ROOM = (
    "there is no memory for an answer of {size_bytes} bytes: the large answers of other clients take it; "
    "read in blocks (fs/open, fs/readBlock; streamResponse), or try again"
)


class AnswerMemory:
    """What one connection may use. `shared` is for the larger answers of all connections."""

    def __init__(self, shared: MemoryBudget) -> None:
        # Otherwise a large answer would wait for as long as its client asks for small ones.
        self._own = MemoryBudget(ANSWER_BYTES, is_in_order=True)
        self._shared = shared
        self._unsent: list[Grant] = []

    async def take(self, size_bytes: int) -> Grant:
        """Reserve memory for an answer once the client has taken earlier ones. `settle` must follow, or the
        grant's own `release`.

        Raises OperationFailed if the answers of others leave no room for a large one for too long.
        """
        own = await take_all(size_bytes, self._own)
        if size_bytes <= ANSWER_BYTES:
            return own
        try:
            async with asyncio.timeout(LARGE_ANSWER_WAIT_S):
                shared = await take_all(size_bytes, self._shared)
        except BaseException as error:
            own.release()
            if isinstance(error, TimeoutError):
                raise OperationFailed(_NO_ROOM.format(size_bytes=size_bytes)) from error
            raise
        return own.joined_by(shared)

    def settle(self, grant: Grant, *, is_sent: bool) -> None:
        """Give back the memory of an answer: now, or in the next `release_sent`."""
        if is_sent:
            grant.release()
        else:
            self._unsent.append(grant)

    def release_sent(self) -> None:
        """Give back the memory of all answers: they are sent, or will never be."""
        unsent, self._unsent = self._unsent, []
        for grant in unsent:
            grant.release()

"""Turns on the event loop for the work of proxies, which whole crowds of connections can cause at once.

All proxies of a loop together begin one piece of work in a turn: a connection, the head of a request, a few
pieces of a body. So the loop looks at everybody else's business in between. Proxies take turns with each
other, so one that a thousand clients flood holds up another by one piece of work at a time.
"""

from __future__ import annotations

import asyncio


class Turns:
    """The turns of one loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    def share(self) -> Share:
        """Return the share of one more proxy."""
        return Share(self._turn)


class Share:
    """One proxy's share of the turns."""

    def __init__(self, turn: asyncio.Lock) -> None:
        self._turn = turn
        self._own = asyncio.Lock()

    async def take(self) -> None:
        """Wait for the next turn. The caller does a bounded piece of work before it waits again."""
        # Only one of this proxy's clients waits among those of the others.
        async with self._own, self._turn:
            await asyncio.sleep(0)

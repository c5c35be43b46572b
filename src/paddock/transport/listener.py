"""A place where peers arrive, and the links that came from there.

Knows no medium: `websocket` and `unix` derive their listeners from this one.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from paddock.transport.link import Link


class OpenLinks:
    """The links of one listener: counted against a limit, closed together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._links: set[Link] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @property
    def is_full(self) -> bool:
        """Whether one more link would be too many."""
        return len(self._links) >= self._limit

    def add(self, link: Link) -> None:
        """Count a link in."""
        self._links.add(link)
        self._is_empty.clear()

    def remove(self, link: Link) -> None:
        """Count a link out, if it was counted in."""
        self._links.discard(link)
        if not self._links:
            self._is_empty.set()

    async def aclose(self) -> None:
        """Close every link and wait until all are gone, which their close timeout bounds."""
        for link in tuple(self._links):
            link.close()
        await self._is_empty.wait()


class Listener(ABC):
    """Accepts links until it is closed."""

    url: str
    """Where to connect to, with the port that the kernel chose."""

    @abstractmethod
    def close(self) -> None:
        """Accept no more peers. Open links go on. Idempotent."""

    @abstractmethod
    async def aclose(self) -> None:
        """Accept no more peers, close every link and wait until all are gone. Idempotent."""

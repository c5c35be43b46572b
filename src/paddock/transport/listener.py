"""A place where peers arrive, and the links that came from there.

Knows no medium: `websocket` and `unix` derive their listeners from this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
from abc import ABC, abstractmethod
from typing import Any, Final

from paddock.journal import Journal
from paddock.transport.link import Link

_journal = Journal(logging.getLogger(__name__))

# Peers that may wait between two turns of the event loop. The kernel caps it at net.core.somaxconn.
BACKLOG: Final = 128


class OpenLinks:
    """The links of one listener: counted against a limit, closed together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._links: set[Link] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    @property
    def is_full(self) -> bool:
        """Return whether one more link would be too many."""
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
        """Close every link and wait until all have ended, which their close timeout bounds."""
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
        """Accept no more peers, close every link and wait until all have ended. Idempotent."""


class ListeningSocket(socket.socket):
    """A listening socket that turns peers away while the process has no file descriptors left.

    When accept(2) fails with EMFILE the peer stays in the queue and the socket readable, so
    a loop that polls it would spin. A descriptor kept in reserve is enough to accept and hang up.
    """

    _reserve: int = -1

    def listen(self, backlog: int = BACKLOG, /) -> None:
        """Take the reserve, then listen."""
        self._take_reserve()
        super().listen(backlog)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept, or hang up on the next peer and report that nobody waits."""
        try:
            accepted = super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            self._turn_away()
            raise BlockingIOError(errno.EAGAIN, "turned a peer away") from error
        with contextlib.suppress(OSError):
            self._take_reserve()
        return accepted

    def close(self) -> None:
        """Close, and give the reserve back."""
        super().close()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _turn_away(self) -> None:
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
            with contextlib.suppress(OSError):
                super().accept()[0].close()
                _journal.warning("connection refused", reason="out of file descriptors")
        # Another thread may have taken the descriptor; the peers then wait until there is one again.
        with contextlib.suppress(OSError):
            self._take_reserve()

    def _take_reserve(self) -> None:
        if self._reserve < 0:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

"""Looks up the addresses of names, in threads that belong to one proxy or connection.

The resolver blocks for as long as a name server does not answer, which may be half a minute. The loop has few
threads for that, and all clients of a server would wait behind the slow names of one command. So each
proxy has some for itself, and only its own names wait for them. Those of a session together are bounded, too:
a thread outlives the proxy that wanted to know.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from paddock.network.address import Address

LOOKUPS_LIMIT: Final = 8
"""Names of one proxy that are looked up at once."""

SESSION_LOOKUPS_LIMIT: Final = 64
"""Names of one session that are looked up at once: as many as eight commands with slow names may want."""

LookUp = Callable[[str, int], Sequence[Address]]
"""Returns the addresses of a name. Blocks. Raises OSError."""


class NameLookup:
    """A `gateway.Resolve`: looks up names by the resolver of this host, or another.

    `lookups` are those that a session has left, for it and others.
    """

    def __init__(self, look_up: LookUp | None = None, lookups: asyncio.Semaphore | None = None) -> None:
        self._look_up = look_up or look_up_by_system
        self._slots = asyncio.Semaphore(LOOKUPS_LIMIT)
        self._lookups = lookups or asyncio.Semaphore(LOOKUPS_LIMIT)

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """Return the addresses of a name. Raises OSError."""
        await self._take_slot()
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Sequence[Address]] = loop.create_future()

        def look_up() -> None:
            addresses: Sequence[Address] = ()
            problem: OSError | None = None
            try:
                addresses = self._look_up(host, port)
            except OSError as error:
                problem = error
            except UnicodeError as error:
                # A label that no name server knows.
                problem = OSError(str(error))
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._finish, found, addresses, problem)

        try:
            # Nobody can end a lookup, so it must not keep the process from ending.
            threading.Thread(target=look_up, name="paddock-names", daemon=True).start()
        except RuntimeError as error:
            self._leave_slot()
            raise OSError(errno.EAGAIN, "no thread can be started to look it up") from error
        return await found

    async def _take_slot(self) -> None:
        await self._slots.acquire()
        try:
            await self._lookups.acquire()
        except BaseException:
            self._slots.release()
            raise

    def _leave_slot(self) -> None:
        self._lookups.release()
        self._slots.release()

    def _finish(
        self, found: asyncio.Future[Sequence[Address]], addresses: Sequence[Address], problem: OSError | None
    ) -> None:
        # Only now: a thread continues even if nobody waits for it any more.
        self._leave_slot()
        if found.done():
            return
        if problem is None:
            found.set_result(addresses)
        else:
            found.set_exception(problem)


def look_up_by_system(host: str, port: int) -> Sequence[Address]:
    """Ask the resolver of this host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(entry[4][0]) for entry in found if "%" not in str(entry[4][0])]

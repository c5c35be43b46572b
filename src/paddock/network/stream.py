"""The connection that the proxy's readers of messages need, with TLS on it or without."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Source(Protocol):
    """Whatever bytes come from. One coroutine at a time receives."""

    async def receive(self) -> bytes:
        """Wait for the next bytes, and take all that have arrived; return nothing at the end."""


class Stream(Source, Protocol):
    """A connection whose other end is not trusted. `close` or `abort` it in the end.

    One coroutine at a time receives, and one sends.
    """

    lost: asyncio.Future[None]

    @property
    def is_at_end(self) -> bool:
        """Return whether the other end will send nothing more."""

    async def turn(self) -> None:
        """Wait until there is time for another piece of work for this connection."""

    def unread(self, data: bytes) -> None:
        """Put back what was taken and not used."""

    async def send(self, data: bytes) -> None:
        """Send, and wait while the other end does not read. Does nothing on a connection that is lost."""

    def end(self) -> None:
        """Send nothing more, but keep receiving."""

    def close(self) -> None:
        """Send what is left, then end."""

    def abort(self) -> None:
        """End at once, whatever is left to send."""

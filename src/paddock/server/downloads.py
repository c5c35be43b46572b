"""Answers to `http/request` on their way to one client, piece by piece.

Each stream has its own numbering and ends with an empty piece that is marked as
the last, also when it failed. A client that does not read slows its own streams
down, and so the servers that feed them; nothing piles up here.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from paddock.errors import FetchFailed, InvalidParams, InvalidRequest
from paddock.journal import Journal
from paddock.protocol.fetch import BodyDelta
from paddock.protocol.structure import Result

if TYPE_CHECKING:
    # The HTTP library loads on first use: most servers never need it.
    from paddock.fetch.exchange import Exchange, Fetcher
    from paddock.network.turn import Turns

journal = Journal(logging.getLogger(__name__))

MAX_STREAMS = 128
"""Streams of one connection at once: each holds a socket and up to 64 KiB of the body."""


class Reader(Protocol):
    """The client, as far as a stream is concerned."""

    def notify(self, method: str, params: Result) -> None:
        """Send a notification."""

    async def caught_up(self) -> None:
        """Wait until the client keeps up."""


class Downloads:
    """The HTTP exchanges of one connection. `aclose` drops them."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._fetcher: Fetcher | None = None
        self._active: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def fetcher(self, lookups: asyncio.Semaphore, turns: Turns) -> Fetcher:
        """Return the HTTP client that makes the requests; `lookups` are those of the client's session, and
        `turns` those in which the server reads what hosts send."""
        if self._fetcher is None:
            # In a thread: loading the HTTP library takes tens of milliseconds.
            await asyncio.to_thread(import_module, "paddock.fetch.exchange")
        return self._loaded_fetcher(lookups, turns)

    def _loaded_fetcher(self, lookups: asyncio.Semaphore, turns: Turns) -> Fetcher:
        if self._fetcher is None:
            from paddock.fetch.exchange import Fetcher
            from paddock.network.name_lookup import NameLookup

            self._fetcher = Fetcher(NameLookup(lookups=lookups), turns.share().take)
        return self._fetcher

    def reserve(self, request_id: str) -> None:
        """Take the id of a stream; `begin` or `release` must follow. Raises if the id is taken, or there
        is no room for another stream."""
        if request_id in self._active:
            raise InvalidParams(f"http/request streamResponse requestId {request_id!r} is already active")
        if len(self._active) >= MAX_STREAMS:
            raise InvalidRequest(
                f"{MAX_STREAMS} streamed answers are under way on this connection, which is the limit; "
                "read one to its end first"
            )
        self._active.add(request_id)

    def release(self, request_id: str) -> None:
        """Release an id that will have no stream."""
        self._active.discard(request_id)

    def begin(self, request_id: str, exchange: Exchange) -> None:
        """Send the body. Close the exchange when the body has ended, or with the connection."""
        if self._is_closed:
            return
        task = asyncio.get_running_loop().create_task(self._stream(request_id, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End every stream and drop the connections to the servers."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._fetcher is not None:
            await self._fetcher.aclose()

    async def _stream(self, request_id: str, exchange: Exchange) -> None:
        seq = 0
        problem: str | None = None
        try:
            async with aclosing(exchange.pieces()) as pieces:
                async for piece in pieces:
                    seq += 1
                    self._send(request_id, seq, piece)
                    await self._reader.caught_up()
        except FetchFailed as error:
            problem = str(error)
        except Exception as error:
            journal.error("download crashed", error=error, request=request_id)
            problem = "http/request failed in the server; see its log"
        finally:
            await exchange.aclose()
            self.release(request_id)
        self._send(request_id, seq + 1, b"", is_last=True, problem=problem)

    def _send(
        self, request_id: str, seq: int, piece: bytes, *, is_last: bool = False, problem: str | None = None
    ) -> None:
        delta = BodyDelta(request_id=request_id, seq=seq, delta_base64=piece, done=is_last, error=problem)
        self._reader.notify("http/request/bodyDelta", delta)

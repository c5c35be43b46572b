"""Operations in a worker process, over a socket that is its standard input and output.

This module does not know how the worker was started or confined. When the worker ends, every operation under
way there fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any, cast
from weakref import WeakValueDictionary

import msgspec

from paddock.errors import OperationFailed
from paddock.fs.answer import AnyAnswer, Failure, Metadata
from paddock.fs.failure import to_error, to_failure
from paddock.fs.framing import (
    HEADER,
    MAX_IN_FLIGHT,
    NOT_BEGUN,
    Request,
    read_length,
    read_reply,
    write_frame,
)
from paddock.fs.operation import A, Operation
from paddock.journal import Journal

BULK_SHARE = 2
"""How many long operations of one client a worker does at once: two clients leave it threads for others."""

CLOSE_TIMEOUT_S = 2.0
"""How long `aclose` waits for the worker after closing its input. The starter ends one that still runs."""


_journal = Journal(logging.getLogger(__name__))


class WorkerOperations:
    """Drives one worker. Made by `attach`; `aclose` must follow."""

    def __init__(self, answers: asyncio.StreamReader, requests: asyncio.StreamWriter) -> None:
        self._answers = answers
        self._requests = requests
        self._room = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._bulk_shares: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()
        self._under_way: dict[int, asyncio.Future[AnyAnswer]] = {}
        self._last_number = 0
        self._failure: str | None = None
        self._receiving = asyncio.get_running_loop().create_task(self._receive())

    @classmethod
    async def attach(cls, connection: socket.socket) -> WorkerOperations:
        """Take over the socket whose other end is a worker's input and output."""
        # Not pipes: uvloop closes the descriptor of a pipe, and then the file object closes it again, when
        # the number may already belong to a file that another thread has opened.
        return cls(*await asyncio.open_unix_connection(sock=connection))

    @property
    def has_ended(self) -> bool:
        """Return whether the worker has ended, and takes no more requests."""
        return self._failure is not None

    def metadata_at_once(self, path: bytes) -> Metadata | None:
        """See `Operations`. Asking a worker means waiting, so this returns None."""
        return None

    def bulk_share(self, client: int) -> asyncio.Semaphore:
        """Return the semaphore for long operations, by which a client leaves threads to others."""
        return self._bulk_shares.setdefault(client, asyncio.Semaphore(BULK_SHARE))

    async def perform(self, operation: Operation[A]) -> A:
        """Carry one operation out. Raises RequestError, also when the worker ends before it answers."""
        async with self._room:
            if self._failure is not None:
                raise OperationFailed(self._failure)
            self._last_number += 1
            number = self._last_number
            answered = self._under_way[number] = asyncio.get_running_loop().create_future()
            # Callers send only operations of the closed set.
            self._requests.write(write_frame(Request(number, cast(Any, operation))))
            answer = await answered
        if isinstance(answer, Failure):
            if answer.fault is not None:
                _journal.error("file worker failed", fault=answer.fault)
            raise to_error(answer)
        return cast("A", answer)

    async def aclose(self) -> None:
        """End the worker's input, so that it closes its files and exits. Bounded."""
        if not self._requests.is_closing():
            self._requests.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._receiving
        self._requests.close()

    async def _receive(self) -> None:
        reason, doubt = "the file worker has ended", "; operations under way may or may not have taken effect"
        try:
            while True:
                length = read_length(await self._answers.readexactly(HEADER.size))
                reply = read_reply(await self._answers.readexactly(length))
                if reply.number == NOT_BEGUN and isinstance(reply.answer, Failure):
                    reason, doubt = reply.answer.message, ""
                    break
                answered = self._under_way.pop(reply.number, None)
                if answered is not None and not answered.done():
                    answered.set_result(reply.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except (ValueError, msgspec.DecodeError, OSError) as error:
            reason = f"the file worker's answers can't be read: {error}"
        finally:
            self._failure = f"{reason}{doubt}"
            self._requests.close()
            failed = to_failure(OperationFailed(self._failure))
            for answered in self._under_way.values():
                if not answered.done():
                    answered.set_result(failed)
            self._under_way.clear()

"""Writes to the standard streams from an event loop, which must not wait for their readers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from paddock.cli.descriptor import write_all
from paddock.shortage import start_thread


class OutputWriter:
    """One thread that writes, in the order of the calls. Belongs to one event loop; `close` it at the end.

    A pipe or a terminal keeps a write waiting for as long as its reader likes. Nobody can end that wait, so
    it must not keep this process from ending either.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[int, bytes, asyncio.Future[None]] | None] = SimpleQueue()
        self._has_thread = False

    async def write(self, fd: int, data: bytes) -> None:
        """Write everything. Raises OSError. Cancelling the call does not take back what it would write."""
        if not self._has_thread:
            start_thread(Thread(target=self._run, name="stdout", daemon=True))
            self._has_thread = True
        written: asyncio.Future[None] = self._loop.create_future()
        self._work.put((fd, data, written))
        await written

    def close(self) -> None:
        """Let the thread end after the writes that have begun. This does not wait for them."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            fd, data, written = work
            problem: OSError | None = None
            try:
                write_all(fd, data)
            except OSError as error:
                problem = error
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_resolve, written, problem)


def _resolve(written: asyncio.Future[None], problem: OSError | None) -> None:
    if written.done():
        return
    if problem is None:
        written.set_result(None)
    else:
        written.set_exception(problem)

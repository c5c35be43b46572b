"""The input of a process: a pipe, or a terminal's master side.

Writes of one turn of the event loop reach the process together. Input that the kernel does not
accept then waits in a bounded queue; the stream asks a writer that fills the queue to wait.
Writes are never reordered and never dropped while the process can still read them.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from paddock.process.pipe import BULK_PIPE_BYTES, widen_pipe

if TYPE_CHECKING:
    from paddock.process.terminal_end import TerminalEnd

QUEUE_LIMIT_BYTES = 1024 * 1024
"""How much input may wait for the child: sixteen pipes' worth, so a writer keeps the pipe full."""

QUEUE_HARD_LIMIT_BYTES = 64 * QUEUE_LIMIT_BYTES
"""Most input that writers may queue without waiting for `drain`; a write beyond it fails."""

GATHERED_BYTES = BULK_PIPE_BYTES
"""Most input that waits for the end of the turn: as much as a wide pipe holds. Waking the process costs
more than copying several writes."""

GATHERED_WRITES = 64
"""Writes per system call, far fewer than IOV_MAX."""

SMALL_BYTES = 1024
"""A write of no more joins the one before it, so that an object in the queue stands for a KiB or more."""

JOINED_BYTES = 64 * 1024
"""Limit for writes that were joined."""

FLUSHED_BYTES = 4 * QUEUE_LIMIT_BYTES
"""Most input in one turn of the loop for a process that reads as fast as the server writes: a millisecond."""


class InputStream:
    """Owns `fd` and writes to it without ever blocking the loop."""

    def __init__(self, fd: int, *, is_terminal: bool) -> None:
        self._fd = fd
        self._is_terminal = is_terminal
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes | bytearray | memoryview] = deque()
        self.queued_bytes = 0
        """Input that the kernel has not accepted yet."""
        self._room = asyncio.Event()
        self._room.set()
        self.is_open = True
        """Whether a write can still reach the process."""
        self.has_room = True
        """Whether the queue is below its bound."""
        self.is_full = False
        """Whether the queue is at its hard limit."""
        self._is_closed = False
        self._is_ending = False
        self._is_watching = False
        self._is_flush_due = False
        self._is_wide = False
        self._is_at_line_start = True
        self._terminal_end: TerminalEnd | None = None

    def write(self, data: bytes) -> None:
        """Queue input after all earlier input; do nothing if the stream is closed.

        The queue accepts it in any case: a caller that respects the bound waits for `drain` afterwards.
        """
        if not self.is_open or not data:
            return
        if self._is_terminal:
            self._is_at_line_start = data.endswith(b"\n")
        if len(data) > SMALL_BYTES or not self._queue:
            self._queue.append(data)
        else:
            self._join(data)
        self.queued_bytes += len(data)
        if self._is_watching:
            self._note_room()
        elif self.queued_bytes >= GATHERED_BYTES:
            self._flush()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._turn_ended)

    def _join(self, data: bytes) -> None:
        last = self._queue[-1]
        if type(last) is bytearray and len(last) < JOINED_BYTES:
            last += data
        else:
            self._queue.append(bytearray(data))

    async def drain(self) -> None:
        """Wait until the process has read enough, or the input is closed."""
        await self._room.wait()

    def flush(self) -> None:
        """Hand the writes so far to the kernel, as far as it accepts them, so that nothing overtakes them."""
        if not self._is_closed and not self._is_watching:
            self._flush()

    def end(self) -> None:
        """Let the process read what is queued and then the end of its input."""
        if not self.is_open:
            return
        self.is_open = False
        self._is_ending = True
        if not self._queue:
            self._end_now()

    def _end_now(self) -> None:
        """End the input after everything was written."""
        if not self._is_terminal:
            self.close()
        elif self._terminal_end is None:
            # Most commands have pipes.
            from paddock.process.terminal_end import TerminalEnd

            self._terminal_end = TerminalEnd(self._fd, is_at_line_start=self._is_at_line_start)
            self._terminal_end.begin()

    def close(self) -> None:
        """Close now, and drop input that the process has not read: nobody can read it any more."""
        if self._is_closed:
            return
        self.is_open = False
        self._is_closed = True
        if self._terminal_end is not None:
            self._terminal_end.close()
        self._watch(False)
        self._queue.clear()
        self.queued_bytes = 0
        os.close(self._fd)
        self._note_room()

    def _turn_ended(self) -> None:
        self._is_flush_due = False
        self.flush()

    def _flush(self) -> None:
        left_bytes = FLUSHED_BYTES
        while self._queue and left_bytes > 0:
            try:
                written = os.writev(self._fd, tuple(islice(self._queue, GATHERED_WRITES)))
            except BlockingIOError:
                self._widen()
                break
            except OSError:
                # EPIPE or EIO: nobody will ever read this.
                self.close()
                return
            self.queued_bytes -= written
            left_bytes -= written
            self._forget(written)
            if self._queue:
                self._widen()
        self._watch(bool(self._queue))
        self._note_room()
        if self._is_ending and not self._queue:
            self._end_now()

    def _note_room(self) -> None:
        self.has_room = self.queued_bytes <= QUEUE_LIMIT_BYTES
        self.is_full = self.queued_bytes > QUEUE_HARD_LIMIT_BYTES
        if self.has_room:
            self._room.set()
        else:
            self._room.clear()

    def _forget(self, written: int) -> None:
        """Remove from the queue what the kernel has accepted."""
        while written:
            data = self._queue[0]
            if written < len(data):
                self._queue[0] = memoryview(data)[written:]
                return
            self._queue.popleft()
            written -= len(data)

    def _widen(self) -> None:
        if not self._is_wide and not self._is_terminal:
            self._is_wide = True
            widen_pipe(self._fd)

    def _watch(self, wanted: bool) -> None:
        if wanted and not self._is_watching:
            self._loop.add_writer(self._fd, self._flush)
        elif not wanted and self._is_watching:
            self._loop.remove_writer(self._fd)
        self._is_watching = wanted

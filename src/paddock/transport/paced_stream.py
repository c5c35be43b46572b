"""A TLS connection that gets large output in pieces.

The event loop's transport encrypts whatever it is given in one go, on the loop, into memory that it keeps for
as long as the connection lives. A message may be half a gigabyte: that would hold up everybody else,
and every connection that once had a large message would keep its size. So a piece follows when the
one before it has left, and each turn of the loop gives at most one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # collections.abc has it only since Python 3.12.
    from typing_extensions import Buffer

PIECE_BYTES: Final = 256 * 1024
"""Bytes to encrypt in one turn of the loop: less than a millisecond, and 16 records."""


class PacedStream(asyncio.Transport):
    """Stands before a transport over TLS, whose protocol has to pass `stream_paused` and `stream_resumed` on.

    Calls `paused` and `resumed` at the marks of `set_write_buffer_limits`, counting all waiting output.
    """

    def __init__(
        self, stream: asyncio.Transport, paused: Callable[[], None], resumed: Callable[[], None]
    ) -> None:
        super().__init__()
        self._stream = stream
        self._paused = paused
        self._resumed = resumed
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._is_full = False
        """Whether the transport wants no more for now."""
        self._is_pumping = False
        """Whether a later turn gives the next piece."""
        self._is_closing = False
        self._high_bytes = 0
        self._low_bytes = 0
        self._is_reported = False
        stream.set_write_buffer_limits(high=PIECE_BYTES, low=PIECE_BYTES // 4)

    # ------------------------------------------------------------------ output

    def write(self, data: Buffer) -> None:
        """Send data after all waiting output."""
        view = memoryview(data)
        if self._queue or self._is_full or len(view) > PIECE_BYTES:
            self._queue.append(view)
            self._queued_bytes += len(view)
            self._pump_soon()
        else:
            self._stream.write(view)
        self._report()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send all of them."""
        for data in list_of_data:
            self.write(data)

    def stream_paused(self) -> None:
        """Wait: the transport has enough."""
        self._is_full = True
        self._report()

    def stream_resumed(self) -> None:
        """Go on: the transport has sent most of what it had."""
        self._is_full = False
        self._pump_soon()
        self._report()

    def get_write_buffer_size(self) -> int:
        """Return all that waits, here and in the transport."""
        return self._queued_bytes + self._stream.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Choose the marks, and report at once if there is cause."""
        assert high is not None
        assert low is not None
        self._high_bytes, self._low_bytes = high, low
        self._report()

    def _pump_soon(self) -> None:
        if self._queue and not self._is_full and not self._is_pumping:
            self._is_pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pumping = False
        if self._stream.is_closing():
            self._drop()
            return
        if self._queue and not self._is_full:
            view = self._queue.popleft()
            if len(view) > PIECE_BYTES:
                self._queue.appendleft(view[PIECE_BYTES:])
                view = view[:PIECE_BYTES]
            self._queued_bytes -= len(view)
            self._stream.write(view)
            self._pump_soon()
            self._report()
        if self._is_closing and not self._queue:
            self._stream.close()

    def _report(self) -> None:
        waiting = self.get_write_buffer_size()
        if not self._is_reported and waiting > self._high_bytes:
            self._is_reported = True
            self._paused()
        elif self._is_reported and waiting <= self._low_bytes:
            self._is_reported = False
            self._resumed()

    def _drop(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0

    # ------------------------------------------------------------------ the end

    def is_closing(self) -> bool:
        """Return whether nothing more can be written."""
        return self._is_closing or self._stream.is_closing()

    def close(self) -> None:
        """End the connection when all that waits has left."""
        self._is_closing = True
        if not self._queue:
            self._stream.close()

    def abort(self) -> None:
        """End it now."""
        self._drop()
        self._stream.abort()

    # ------------------------------------------------------------------ as the transport does it

    def pause_reading(self) -> None:
        """Stop reading."""
        self._stream.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._stream.resume_reading()

"""One output stream of a process, read when the kernel says there is something.

An `OutputStream` owns the descriptor it reads. While it is paused it reads nothing, so
the pipe fills up and the child waits: that is the back-pressure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from paddock.model.stream import Stream
from paddock.process.pipe import BULK_PIPE_BYTES, widen_pipe

RECHECK_S = 0.05
"""How soon to check whether somebody holds the terminal again after its process let go of it."""


class OutputStream:
    """Reads `fd` in pieces of at most `chunk_bytes` and hands them on, in order.

    Calls `on_data` with each piece, and `on_end` once, at the end of the stream or
    when the stream is closed. `begin` starts it.
    """

    def __init__(
        self,
        fd: int,
        stream: Stream,
        chunk_bytes: int,
        on_data: Callable[[Stream, bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._fd = fd
        self._stream = stream
        self._chunk_bytes = chunk_bytes
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._is_reading = False
        self._is_ended = False
        self._is_bulk = False
        self._is_final = stream is not Stream.PTY
        self._is_held = False
        self._recheck: asyncio.TimerHandle | None = None

    @property
    def is_ended(self) -> bool:
        """Return whether everything was read, or the stream was closed."""
        return self._is_ended

    def begin(self) -> None:
        """Start, or go on after a pause."""
        self._is_held = False
        if not self._is_reading and not self._is_ended:
            self._loop.add_reader(self._fd, self._read)
            self._is_reading = True

    def pause(self) -> None:
        """Read nothing until `begin` is called again."""
        self._is_held = True
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def finish(self) -> None:
        """Finish because the process has exited: a terminal that nobody holds is at its end."""
        if not self._is_final:
            self._is_final = True
            if self._recheck is not None:
                self._recheck.cancel()
                self._look_again()

    def _look_again_later(self) -> None:
        # A process may close its terminal and open it again as /dev/tty, and closing the master would
        # hang it up. The kernel reports nothing in between: it only repeats that nobody is there.
        self._stop_reading()
        if self._recheck is None:
            self._recheck = self._loop.call_later(RECHECK_S, self._look_again)

    def _look_again(self) -> None:
        self._recheck = None
        if not self._is_held:
            self.begin()

    def take(self) -> None:
        """Read what is there now, without waiting.

        Reads no more than a pipe can hold: a process that still writes must not keep us here.
        """
        for _ in range(BULK_PIPE_BYTES // self._chunk_bytes + 1):
            if self._is_ended or not self._read_once():
                break

    def close(self) -> None:
        """Take what is there now, then end."""
        self.take()
        self._end()

    def _read(self) -> None:
        self._read_once()

    def _read_once(self) -> bool:
        """Hand on one piece. Return False if there is nothing more for now."""
        try:
            data = os.read(self._fd, self._chunk_bytes)
        except BlockingIOError:
            return False
        except OSError:
            # EIO: nobody holds the other side of the terminal (ioctl_tty(2)).
            if not self._is_final:
                self._look_again_later()
                return False
            data = b""
        if not data:
            self._end()
            return False
        if self._stream is Stream.PTY:
            data = self._read_on(data)
        elif len(data) == self._chunk_bytes and not self._is_bulk:
            # A stream that fills a read is bulk: the child writes on while we encode.
            self._is_bulk = True
            widen_pipe(self._fd)
        self._on_data(self._stream, data)
        return True

    def _read_on(self, data: bytes) -> bytes:
        """Join what a terminal gives in pieces of one line buffer at most (4 KiB, tty_io.c)."""
        pieces = [data]
        room = self._chunk_bytes - len(data)
        while room > 0:
            try:
                data = os.read(self._fd, room)
            except OSError:
                # Nothing more for now, or the end, which the next read meets again.
                break
            if not data:
                break
            pieces.append(data)
            room -= len(data)
        return b"".join(pieces)

    def _end(self) -> None:
        if self._is_ended:
            return
        if self._recheck is not None:
            self._recheck.cancel()
        self.pause()
        self._is_ended = True
        os.close(self._fd)
        self._on_end()

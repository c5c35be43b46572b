"""An asyncio transport over any two file descriptors.

The pipe transports of asyncio and uvloop refuse regular files and /dev/null and differ
in when they close; standard input and output may be anything. This one polls what can
be polled, treats the rest as always ready, as poll(2) does, and leaves the descriptors'
flags as they were. It moves bytes and knows no messages.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
from collections import deque
from typing import Final

# Four times the default capacity of a pipe (pipe(7)); a larger read finds no more.
_READ_BYTES: Final = 256 * 1024


def _is_pollable(fd: int) -> bool:
    """Return whether epoll takes the descriptor; it refuses files and some devices with EPERM."""
    with select.epoll() as poller:
        try:
            poller.register(fd, 0)
        except PermissionError:
            return False
        return True


class DescriptorTransport(asyncio.Transport):
    """Reads one descriptor, writes another, and owns both: it closes them when it ends.

    They may be the same file or socket. `start` connects the protocol.
    """

    def __init__(self, protocol: asyncio.Protocol, read_fd: int, write_fd: int) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._polls_input = _is_pollable(read_fd)
        self._polls_output = _is_pollable(write_fd)
        # O_NONBLOCK lives in the open file description, which a terminal's other users and
        # perhaps both descriptors share (fcntl(2)): remember both before changing either.
        self._was_blocking = {fd: os.get_blocking(fd) for fd in (read_fd, write_fd)}
        self._queue: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._high_water, self._low_water = 64 * 1024, 16 * 1024
        self._is_writing_paused = False
        self._is_reading = False
        self._is_closing = False
        self._is_gone = False

    def start(self) -> None:
        """Connect the protocol and begin to read."""
        if self._polls_input:
            os.set_blocking(self._read_fd, False)
        if self._polls_output:
            os.set_blocking(self._write_fd, False)
        self._protocol.connection_made(self)
        self.resume_reading()

    # ------------------------------------------------------------------ reading

    def pause_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        if self._is_reading:
            self._is_reading = False
            if self._polls_input:
                self._loop.remove_reader(self._read_fd)

    def resume_reading(self) -> None:
        """See `asyncio.ReadTransport`."""
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            if self._polls_input:
                self._loop.add_reader(self._read_fd, self._read_ready)
            else:
                self._loop.call_soon(self._read_ready)

    def _read_ready(self) -> None:
        # Read all that is there: when an error comes in one event with bytes before it, uvloop reports
        # that event and then stops watching the descriptor.
        if self._is_reading and self._read_once():
            self._loop.call_soon(self._read_ready)

    def _read_once(self) -> bool:
        """Pass on what is there. Return False if there was nothing, or nothing more will come."""
        try:
            data = os.read(self._read_fd, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            # A terminal whose other side hung up reports EIO instead of its end (pty(7)).
            if error.errno != errno.EIO:
                self._drop(error)
                return False
            data = b""
        if not data:
            self.pause_reading()
            if not self._protocol.eof_received():
                self.close()
            return False
        self._protocol.data_received(data)
        return self._is_reading

    # ------------------------------------------------------------------ writing

    def get_write_buffer_size(self) -> int:
        """See `asyncio.WriteTransport`."""
        return self._queued_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See `asyncio.WriteTransport`."""
        self._high_water = 64 * 1024 if high is None else high
        self._low_water = self._high_water // 4 if low is None else low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """See `asyncio.WriteTransport`."""
        if self._is_closing or not data:
            return
        # A queued buffer must not change under us.
        self._queue.append(memoryview(data if isinstance(data, bytes) else bytes(data)))
        self._queued_bytes += len(data)
        if len(self._queue) == 1:
            self._write_some()
            if self._queue:
                self._loop.add_writer(self._write_fd, self._write_ready)
        if self._queued_bytes > self._high_water and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        """Report that the output cannot end before the input: the two may be one descriptor."""
        return False

    def _write_ready(self) -> None:
        self._write_some()
        if not self._queue:
            self._loop.remove_writer(self._write_fd)
        if self._is_writing_paused and self._queued_bytes <= self._low_water:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if self._is_closing and not self._queue:
            self._end(None)

    def _write_some(self) -> None:
        try:
            while self._queue:
                written = os.write(self._write_fd, self._queue[0])
                self._queued_bytes -= written
                if written == len(self._queue[0]):
                    self._queue.popleft()
                else:
                    self._queue[0] = self._queue[0][written:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._drop(error)

    # ------------------------------------------------------------------ ending

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return self._is_closing

    def close(self) -> None:
        """See `asyncio.BaseTransport`."""
        if not self._is_closing:
            self.pause_reading()
            self._is_closing = True
            if not self._queue:
                self._end(None)

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""
        self._drop(None)

    def _drop(self, error: Exception | None) -> None:
        self.pause_reading()
        self._is_closing = True
        if self._queue:
            self._loop.remove_writer(self._write_fd)
            self._queue.clear()
            self._queued_bytes = 0
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self._is_gone:
            self._is_gone = True
            # Later, as with any transport: the protocol may be in the middle of a callback.
            self._loop.call_soon(self._release, error)

    def _release(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            for fd, was_blocking in self._was_blocking.items():
                os.set_blocking(fd, was_blocking)
                os.close(fd)

"""Copies between a standard stream of this process and a pipe that a confined command has in its place.

A command that had the stream itself could change the mode of the file behind it, or open it again through
`/proc/self/fd` for more than it was opened for; with its own pipe it may do what it likes.

Input is taken from its source only as far as the command has read it, so that the next reader there finds the
rest, as after a command that has the stream itself. That holds for files, and for the first 64 KiB of pipes
and stream sockets; behind them, and from devices, up to 64 KiB more is taken. No write of the command is
divided here, up to a page, and small ones that wait go on together. Nothing waits by looking again and again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import struct
import termios
import threading
from abc import ABC, abstractmethod
from contextlib import suppress

from paddock.cli.descriptor import READ_BYTES, write_all
from paddock.cli.input_source import PAGE_BYTES, DeviceSource, Source
from paddock.shortage import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PACKETS: Final = 256
"""Writes of a command that may wait to be copied; a pipe holds 16 by default."""

_INT: Final = struct.Struct("i")


class _Copy(ABC):
    """One thread that copies until there is no more, or until it is told that the command has ended."""

    def __init__(self) -> None:
        self._has_ended = os.eventfd(0, os.EFD_CLOEXEC)
        # A read that nobody answers any more must not keep this process from ending.
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin; the command has its descriptor by now. Raises OSError."""
        start_thread(self._thread)

    def command_ended(self) -> None:
        """Tell that nothing of the command lives any more."""
        os.eventfd_write(self._has_ended, 1)

    @abstractmethod
    def _run(self) -> None: ...

    def _wait(self, *wanted: tuple[int, int]) -> bool:
        """Wait for one of these events; False if the command has ended."""
        poll = select.poll()
        poll.register(self._has_ended, select.POLLIN)
        for file, events in wanted:
            poll.register(file, events)
        return all(file != self._has_ended for file, _ in poll.poll())


class InputCopy(_Copy):
    """Standard input of a command, from a source. `stream` is the command's end."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self.stream, self._writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writer, False)
        if source.window_bytes is not None:
            # With room for one page it can be written again only when everything was read.
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, source.window_bytes)

    def finish(self) -> None:
        """Leave to others what the command has not read. Call it after `command_ended`."""
        if not self._source.may_hang:
            self._thread.join()
            os.close(self.stream)
            os.close(self._has_ended)

    def _run(self) -> None:
        given = 0
        source = self._source
        try:
            # If the input can't be read, the command finds its end: a pipe can show no other failure.
            with suppress(OSError):
                window_bytes = source.window_bytes
                if window_bytes is None:
                    given = self._copy_ahead()
                elif self._copy_step_by_step(window_bytes):
                    # Refused where the user has too many pages in pipes already (pipe(7)).
                    with suppress(PermissionError):
                        fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, READ_BYTES)
                    self._source = DeviceSource(source.fd)
                    self._copy_ahead()
        finally:
            os.close(self._writer)
        if not source.waits:
            self._wait()
            source.take(max(given - self._unread(), 0))
        source.close()

    def _copy_step_by_step(self, window_bytes: int) -> bool:
        """Return whether the command has read so much that it may have the rest in larger pieces."""
        taken = 0
        is_running = True
        while is_running and self._wait((self._source.fd, select.POLLIN)):
            data = self._source.look(0, window_bytes)
            if data == b"":
                return False
            given = self._write(data) if data else 0
            is_running = self._wait((self._writer, select.POLLOUT))
            count = max(given - self._unread(), 0)
            self._source.take(count)
            taken += count
            if taken >= READ_BYTES:
                return is_running
        return False

    def _copy_ahead(self) -> int:
        given = 0
        while not self._source.waits or self._wait((self._source.fd, select.POLLIN)):
            data = self._source.look(given, READ_BYTES)
            if data is None:
                continue
            end = given + len(data)
            while given < end and self._wait((self._writer, select.POLLOUT)):
                given += self._write(data[given - end :])
            if not data or given < end:
                break
        return given

    def _write(self, data: bytes) -> int:
        # The command can fill its own pipe: it may open the other end.
        with suppress(BlockingIOError):
            return os.write(self._writer, data)
        return 0

    def _unread(self) -> int:
        """Return the number of bytes in the pipe. Our copy of the command's end stays open for this."""
        count: int = _INT.unpack(fcntl.ioctl(self.stream, termios.FIONREAD, bytes(_INT.size)))[0]
        return count


class OutputCopy(_Copy):
    """Standard output or error of a command, or both, to a descriptor. `stream` is the command's end."""

    def __init__(self, target: int) -> None:
        super().__init__()
        self._target = target
        # In packets, so that what several programs write to one place is mixed no more than without us.
        self._reader, self.stream = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
        os.set_blocking(self._reader, False)
        # A packet takes a page of it, however small. Refused where the user has too many in pipes already.
        with suppress(PermissionError):
            fcntl.fcntl(self._reader, fcntl.F_SETPIPE_SZ, PACKETS * PAGE_BYTES)
        self._keeps_packets = _keeps_packets(target)
        self._ahead: bytes | None = None
        self._problem: OSError | None = None
        self._write_count = 0

    def start(self) -> None:
        """Begin, and leave the command's end to the command. Raises OSError."""
        os.close(self.stream)
        super().start()

    def finish(self, patience_s: float | None = None) -> OSError | None:
        """Wait until everything is written that the command wrote; return what kept us from it, if anything.

        Call it after `command_ended`. That nobody reads any more is no failure of ours. With `patience_s`, a
        reader that takes nothing for so long is not waited for: that is an ETIMEDOUT.
        """
        count = -1
        while self._thread.is_alive() and count != self._write_count:
            count = self._write_count
            self._thread.join(patience_s)
        if self._thread.is_alive():
            # It is in a write that nothing can end but the reader, and goes with this process.
            return TimeoutError(errno.ETIMEDOUT, "nobody reads it")
        os.close(self._has_ended)
        return self._problem

    def _run(self) -> None:
        try:
            self._copy()
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                self._problem = error
        # The command learns it from its next write.
        os.close(self._reader)

    def _copy(self) -> None:
        is_running = True
        while True:
            try:
                data = os.read(self._reader, READ_BYTES) if self._ahead is None else self._ahead
                self._ahead = None
            except BlockingIOError:
                if not is_running or self._is_broken():
                    return
                is_running = self._wait((self._reader, select.POLLIN), (self._target, 0))
                continue
            if not data:
                return
            write_all(self._target, data + (self._rest_of(data) or self._followers_of(data)))
            self._write_count += 1

    def _rest_of(self, data: bytes) -> bytes:
        """Return what else belongs to a large write, of which a packet holds no more than a page."""
        pieces: list[bytes] = []
        with suppress(BlockingIOError):
            while len(data) == PAGE_BYTES and len(pieces) < READ_BYTES // PAGE_BYTES - 1:
                data = os.read(self._reader, READ_BYTES)
                pieces.append(data)
        return b"".join(pieces)

    def _followers_of(self, data: bytes) -> bytes:
        """Return what was written behind a small write, as far as both are one write to a pipe (PIPE_BUF)."""
        if self._keeps_packets:
            return b""
        pieces: list[bytes] = []
        count = len(data)
        with suppress(BlockingIOError):
            while self._ahead is None and count < PAGE_BYTES:
                piece = os.read(self._reader, READ_BYTES)
                count += len(piece)
                if piece and count <= PAGE_BYTES:
                    pieces.append(piece)
                else:
                    self._ahead = piece
        return b"".join(pieces)

    def _is_broken(self) -> bool:
        """Return whether nobody reads there any more, which is told unasked (poll(2))."""
        poll = select.poll()
        poll.register(self._target, 0)
        return bool(poll.poll(0))


def _keeps_packets(target: int) -> bool:
    """Return whether a reader there tells one write from the next."""
    if stat.S_ISSOCK(os.fstat(target).st_mode):
        import socket

        with socket.socket(fileno=os.dup(target)) as end:
            return end.type != socket.SOCK_STREAM
    return bool(fcntl.fcntl(target, fcntl.F_GETFL) & os.O_DIRECT)

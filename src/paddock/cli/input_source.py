"""Sources of the standard input of a confined command, one class for each kind of file.

With most kinds of files, it can look at the next bytes without taking them from other readers.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from abc import ABC, abstractmethod
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
SPLICE_F_NONBLOCK: Final = 2
"""See splice(2)."""


class Source(ABC):
    """A source of input."""

    window_bytes: int | None = None
    """How many bytes can be looked at in advance; None if there is no such limit."""
    waits = True
    """Whether there may be nothing for now."""
    may_hang = False
    """Whether a read may wait though something was there."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._opened: tuple[int, ...] = ()

    @abstractmethod
    def look(self, ahead: int, limit: int) -> bytes | None:
        """Return the bytes after the next `ahead` bytes: empty at the end, None if there are none yet.

        Where only a window can be looked at, `ahead` is 0.
        """

    @abstractmethod
    def take(self, count: int) -> None:
        """Take this many bytes for good."""

    def close(self) -> None:
        """Close what was opened besides the descriptor."""
        for fd in self._opened:
            os.close(fd)


class FileSource(Source):
    """A file with a position, which is where the command has read to when it has ended."""

    waits = False

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._start = os.lseek(fd, 0, os.SEEK_CUR)

    def look(self, ahead: int, limit: int) -> bytes | None:
        """Read without moving the position."""
        return os.pread(self.fd, limit, self._start + ahead)

    def take(self, count: int) -> None:
        """Move the position."""
        self._start = os.lseek(self.fd, self._start + count, os.SEEK_SET)


class PipeSource(Source):
    """A pipe, with a name or without."""

    window_bytes = PAGE_BYTES

    def __init__(self, fd: int) -> None:
        import ctypes

        super().__init__(fd)
        self._seen, self._shown = self._opened = os.pipe2(os.O_CLOEXEC)
        self._tee = ctypes.CDLL(None, use_errno=True).tee
        self._tee.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint)
        self._tee.restype = ctypes.c_ssize_t
        self._errno = ctypes.get_errno

    def look(self, ahead: int, limit: int) -> bytes | None:
        """Copy what is in the pipe (tee(2))."""
        count = self._tee(self.fd, self._shown, limit, SPLICE_F_NONBLOCK)
        if count < 0:
            error = self._errno()
            if error == errno.EAGAIN:
                return None
            raise OSError(error, os.strerror(error))
        return os.read(self._seen, count) if count else b""

    def take(self, count: int) -> None:
        """Read it, unless somebody else was faster."""
        while count and _is_readable(self.fd):
            count -= len(os.read(self.fd, count)) or count


class SocketSource(Source):
    """A connected socket that carries a stream."""

    window_bytes = PAGE_BYTES

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        # Few have one, and it takes long to load.
        import socket

        self._socket = socket.socket(fileno=os.dup(fd))
        self.is_stream = self._socket.type == socket.SOCK_STREAM
        self._now = socket.MSG_DONTWAIT
        self._peek = socket.MSG_PEEK | socket.MSG_DONTWAIT

    def look(self, ahead: int, limit: int) -> bytes | None:
        """Copy what has arrived."""
        with suppress(BlockingIOError):
            return self._socket.recv(limit, self._peek)
        return None

    def take(self, count: int) -> None:
        """Receive it, unless somebody else was faster."""
        with suppress(BlockingIOError):
            while count:
                count -= len(self._socket.recv(count, self._now)) or count

    def close(self) -> None:
        """Close the second descriptor."""
        self._socket.close()


class DeviceSource(Source):
    """Anything else. Bytes that were read are lost to others, whether the command reads them or not."""

    may_hang = True

    def look(self, ahead: int, limit: int) -> bytes | None:
        """Take what there is."""
        with suppress(BlockingIOError):
            return os.read(self.fd, limit)
        return None

    def take(self, count: int) -> None:
        """Do nothing: `look` has left nothing to take."""


def source_of(fd: int, status: os.stat_result) -> Source:
    """Return the source that is right for a descriptor of this kind."""
    mode = status.st_mode
    with suppress(OSError):
        if stat.S_ISFIFO(mode):
            return PipeSource(fd)
        if stat.S_ISREG(mode) or stat.S_ISBLK(mode):
            return FileSource(fd)
        if stat.S_ISSOCK(mode):
            source = SocketSource(fd)
            if source.is_stream:
                return source
            source.close()
    return DeviceSource(fd)


def _is_readable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))

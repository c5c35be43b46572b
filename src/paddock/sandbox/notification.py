"""The kernel's questions about system calls, and the memory of those who made them.

A `Listener` gives one question at a time (seccomp_unotify(2)). The task that made the call
waits until it is answered; if the listener is closed, every call that waits, and every
later one, fails with ENOSYS. What the arguments point to may change after it was read,
for other threads of the command run on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_IS_VALID: Final = 0x40082102
_SET_FLAGS: Final = 0x40082104
"""SECCOMP_IOCTL_NOTIF_* of linux/seccomp.h: the same on x86_64 and aarch64."""
_SYNC_WAKE_UP: Final = 1
"""Switch to the one that is woken at once, on the same processor; since Linux 6.6."""
_CONTINUE: Final = 1

_QUESTION: Final = struct.Struct("=QIIiIQ6Q")
"""struct seccomp_notif: id, pid, flags, then struct seccomp_data."""
_ANSWER: Final = struct.Struct("=QqiI")
"""struct seccomp_notif_resp: id, value, error, flags."""
_ID: Final = struct.Struct("=Q")

PATH_BYTES: Final = 4096
"""PATH_MAX: the kernel reads no more of a path."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for an answer."""

    id: int
    task: int
    """The thread that makes it, as a number of our own namespace."""
    number: int
    arguments: tuple[int, ...]


class Listener:
    """Our end of a filter. Owns its descriptor; for one thread at a time."""

    def __init__(self, file: int) -> None:
        self.file = file
        with suppress(OSError):
            fcntl.ioctl(file, _SET_FLAGS, _SYNC_WAKE_UP)

    def question(self) -> Question | None:
        """The next question, waited for; None if the one there was has gone with its task."""
        buffer = bytearray(_QUESTION.size)
        try:
            fcntl.ioctl(self.file, _RECEIVE, buffer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        identity, task, _, number, _, _, *arguments = _QUESTION.unpack(buffer)
        return Question(identity, task, number, tuple(arguments))

    def is_waiting(self, question: Question) -> bool:
        """Whether the task still waits. What was read of it before is its own then, not another's."""
        return self._sent(_IS_VALID, _ID.pack(question.id))

    def let(self, question: Question) -> None:
        """Let the kernel make the call."""
        self._sent(_SEND, _ANSWER.pack(question.id, 0, 0, _CONTINUE))

    def refuse(self, question: Question, error: int) -> None:
        """Have the call fail; the kernel does not make it."""
        self._sent(_SEND, _ANSWER.pack(question.id, 0, -error, 0))

    def close(self) -> None:
        """Answer nothing more."""
        os.close(self.file)

    def _sent(self, request: int, data: bytes) -> bool:
        try:
            fcntl.ioctl(self.file, request, data)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True


class _Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_Remote = _Part * 2


class Memory:
    """Reads the memory of other processes. For one thread at a time."""

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(PATH_BYTES)
        self._local = _Part(ctypes.addressof(self._buffer), PATH_BYTES)
        self._remote = _Remote()
        self._readv = ctypes.CDLL(None).process_vm_readv
        number = ctypes.c_ulong
        self._readv.argtypes = (ctypes.c_int, ctypes.c_void_p, number, ctypes.c_void_p, number, number)
        self._readv.restype = ctypes.c_ssize_t

    def text(self, task: int, address: int) -> bytes | None:
        """A string that ends with NUL; None if there is none that the kernel would take for a path."""
        data = self.data(task, address, PATH_BYTES)
        if data is None:
            return None
        text, end, _ = data.partition(b"\0")
        return text if end else None

    def data(self, task: int, address: int, length: int) -> bytes | None:
        """Up to this many bytes, which are at most PATH_BYTES; None if nothing can be read there."""
        # In two parts, because one that is not all there is not read at all, and a page may be the last.
        first = min(length, _PAGE_BYTES - address % _PAGE_BYTES)
        self._remote[:] = [_Part(address, first), _Part(address + first, length - first)]
        count = self._readv(task, ctypes.byref(self._local), 1, self._remote, 2, 0)
        return self._buffer.raw[:count] if count > 0 else None

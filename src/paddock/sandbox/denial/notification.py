"""Receives the kernel's questions about system calls, and reads the memory of the tasks that make them.

A `Listener` gives one question at a time (seccomp_unotify(2)). The task that made the call waits for the
answer; if the listener is closed, every waiting call, and every later one, fails with ENOSYS. What the
arguments point to may change after it was read, because other threads of the command go on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from msgspec import Struct

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_IS_VALID: Final = 0x40082102
_ADD_FILE: Final = 0x40182103
_SET_FLAGS: Final = 0x40082104
"""SECCOMP_IOCTL_NOTIF_* of linux/seccomp.h: the same on x86_64 and aarch64."""
_SYNC_WAKE_UP: Final = 1
"""Switches at once to the woken task, on the same processor; since Linux 6.6."""
_CONTINUE: Final = 1

_QUESTION: Final = struct.Struct("=QIIiIQ6Q")
"""struct seccomp_notif: id, pid, flags, then struct seccomp_data."""
_ANSWER: Final = struct.Struct("=QqiI")
"""struct seccomp_notif_resp: id, value, error, flags."""
_ID: Final = struct.Struct("=Q")
_ADDITION: Final = struct.Struct("=Q4I")
"""struct seccomp_notif_addfd: id, flags, our descriptor, its number there, its flags there."""
_IS_ANSWER: Final = 2
"""SECCOMP_ADDFD_FLAG_SEND: the number is what the call returns; since Linux 5.14."""

PATH_BYTES: Final = 4096
"""PATH_MAX: the kernel reads no more of a path."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")
_PAGES_KEPT: Final = 256
"""Pages that are not read again while strings are read, 1 MiB: pointers and strings mostly follow each other,
but each of 700,000 short strings may be in a page of its own."""


class Question(Struct, frozen=True):
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
        """Wait for the next question and return it; None if its task has gone meanwhile."""
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
        """Return whether the task still waits.

        If it does, what was read before is that task's memory, not another's.
        """
        return self._sent(_IS_VALID, _ID.pack(question.id))

    def let(self, question: Question) -> None:
        """Let the kernel make the call."""
        self._sent(_SEND, _ANSWER.pack(question.id, 0, 0, _CONTINUE))

    def refuse(self, question: Question, error: int) -> None:
        """Have the call fail; the kernel does not make it."""
        self._sent(_SEND, _ANSWER.pack(question.id, 0, -error, 0))

    def give(self, question: Question, file: int) -> int:
        """Give the task a descriptor, closed when it executes something. Return the number it has there.

        Raises OSError as if the task had opened a file, and with ENOENT if it no longer waits.
        """
        return self._added(question, file, 0)

    def answer_with(self, question: Question, file: int) -> None:
        """Let the call return a descriptor, closed when the task executes something. Raises as `give`."""
        self._added(question, file, _IS_ANSWER)

    def _added(self, question: Question, file: int, flags: int) -> int:
        # Otherwise the call returns a number whose file others could replace.
        addition = bytearray(_ADDITION.pack(question.id, flags, file, 0, os.O_CLOEXEC))
        return int(fcntl.ioctl(self.file, _ADD_FILE, addition))

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
        """Return a string that ends with NUL; None if there is none that the kernel would take for a path."""
        data = self.data(task, address, PATH_BYTES)
        if data is None:
            return None
        text, end, _ = data.partition(b"\0")
        return text if end else None

    def data(self, task: int, address: int, length: int) -> bytes | None:
        """Return up to this many bytes, at most PATH_BYTES; None if nothing can be read there."""
        # In two parts, because a part that is not fully mapped is not read at all, and a page may be the
        # last.
        first = min(length, _PAGE_BYTES - address % _PAGE_BYTES)
        self._remote[:] = [_Part(address, first), _Part(address + first, length - first)]
        count = self._readv(task, ctypes.byref(self._local), 1, self._remote, 2, 0)
        return self._buffer.raw[:count] if count > 0 else None


class Strings:
    """Reads the strings of one task at one moment, page by page.

    Gives `limit_bytes` of strings and pointers at most, counted as the kernel counts what a program gets
    (execve(2)): a string that many pointers lead to counts for each of them. Reading raises OSError: EFAULT
    where nothing can be read, E2BIG where there is more than the limit.
    """

    def __init__(self, memory: Memory, task: int, limit_bytes: int) -> None:
        self._memory = memory
        self._task = task
        self._pages: dict[int, bytes] = {}
        self._left_bytes = limit_bytes

    def string(self, address: int) -> bytes:
        """Return what is there up to a NUL."""
        start = address % _PAGE_BYTES
        page = self._pages.get(address - start) or self._page(address)
        end = page.find(0, start)
        if end >= 0:
            self._count(end - start + 1)
            return page[start:end]
        self._count(_PAGE_BYTES - start)
        parts = [page[start:]]
        for following in self._following(address - start):
            end = following.find(0)
            # The NUL counts, too.
            self._count(end + 1 if end >= 0 else _PAGE_BYTES)
            parts.append(following[: end if end >= 0 else None])
            if end >= 0:
                break
        return b"".join(parts)

    def strings(self, address: int) -> list[bytes]:
        """Return the strings that an array points to, up to a null pointer."""
        found: list[bytes] = []
        # The kernel takes no array as an empty one.
        while address:
            for text in self._words(address):
                if not text:
                    return found
                self._count(_ID.size)
                found.append(self.string(text))
                address += _ID.size
        return found

    def _words(self, address: int) -> tuple[int, ...]:
        """Return the words that lie completely in the page, or the one that begins in it."""
        start = address % _PAGE_BYTES
        page = self._page(address)
        if count := (_PAGE_BYTES - start) // _ID.size:
            return struct.unpack_from(f"={count}Q", page, start)
        data = page[start:] + next(self._following(address - start))
        return _ID.unpack_from(data)

    def _following(self, page: int) -> Iterator[bytes]:
        """Yield the pages after this one."""
        while True:
            page += _PAGE_BYTES
            yield self._page(page)

    def _page(self, address: int) -> bytes:
        page = address - address % _PAGE_BYTES
        data = self._pages.get(page)
        if data is None:
            data = self._memory.data(self._task, page, _PAGE_BYTES)
            if data is None or len(data) < _PAGE_BYTES:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            if len(self._pages) >= _PAGES_KEPT:
                self._pages.clear()
            self._pages[page] = data
        return data

    def _count(self, size_bytes: int) -> None:
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))

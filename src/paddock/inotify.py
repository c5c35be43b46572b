"""The kernel's notices of changes to files (inotify(7)), which Python does not offer.

One `Inotify` is one descriptor with its queue. Adding and removing may be done by any thread;
nothing blocks but the lookup of the path. Other modules decide what a notice means.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from enum import IntFlag
from typing import NamedTuple

_libc = ctypes.CDLL(None, use_errno=True)
_libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)

_EVENT = struct.Struct("=iIII")
"""watch, mask, cookie, length of the name that follows"""

READ_BYTES = 16 * 1024
"""About five hundred notices at once, and 1024 at most."""


class Notice(IntFlag):
    """What happened, and the flags of a watch."""

    MODIFY = 0x2
    ATTRIB = 0x4
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    UNMOUNT = 0x2000
    Q_OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLYDIR = 0x01000000
    DONT_FOLLOW = 0x02000000
    EXCL_UNLINK = 0x04000000
    MASK_ADD = 0x20000000
    ISDIR = 0x40000000


CHANGES = (
    Notice.MODIFY
    | Notice.ATTRIB
    | Notice.MOVED_FROM
    | Notice.MOVED_TO
    | Notice.CREATE
    | Notice.DELETE
    | Notice.DELETE_SELF
    | Notice.MOVE_SELF
)
"""What a watch asks for by default: a directory has only one watch, which everybody who asked for it
shares."""


class RawNotice(NamedTuple):
    """One notice. `watch` is -1 when the queue has overflowed; `name` is empty for the directory itself."""

    watch: int
    mask: int
    """Of `Notice`; as a number, because notices come in thousands."""
    name: bytes
    cookie: int = 0
    """The same for both notices of a move."""


class Inotify:
    """One queue of notices, and the owner of its descriptor. Raises OSError wherever the kernel refuses.

    `close` must follow, when no thread uses it any more.
    """

    def __init__(self) -> None:
        self.descriptor: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise _last_error()

    def add(self, path: bytes, interest: Notice = CHANGES, *, follow: bool = False) -> int:
        """Watch a directory; the same one has the same number, however often it is added.

        A directory that was added before is watched for the new `interest` only, unless that
        has `Notice.MASK_ADD`.
        """
        flags = Notice.ONLYDIR | Notice.EXCL_UNLINK | (Notice(0) if follow else Notice.DONT_FOLLOW)
        watch: int = _libc.inotify_add_watch(self.descriptor, path, interest | flags)
        if watch < 0:
            raise _last_error()
        return watch

    def remove(self, watch: int) -> None:
        """End a watch. One that has ended by itself is no error."""
        _libc.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> list[RawNotice]:
        """Read the pending notices, without waiting."""
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return []
        return list(parse(data))

    def close(self) -> None:
        """End every watch. Idempotent. The kernel needs some microseconds for each."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def parse(data: bytes) -> Iterator[RawNotice]:
    """Parse the kernel's notices."""
    offset = 0
    while offset < len(data):
        watch, mask, cookie, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield RawNotice(watch, mask, data[offset : offset + length].rstrip(b"\0"), cookie)
        offset += length


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))

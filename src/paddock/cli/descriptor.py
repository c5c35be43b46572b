"""The standard descriptors, and how to write to one. Without the event loop, which takes long to load."""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2

READ_BYTES: Final = 64 * 1024
"""What a pipe holds by default (pipe(7))."""


def write_all(fd: int, data: bytes) -> None:
    """Write everything, for as long as that takes: call it where blocking is allowed."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            # Another process that shares this output has made it non-blocking.
            room = select.poll()
            room.register(fd, select.POLLOUT)
            room.poll()


def is_read(fd: int, patience_s: float) -> bool:
    """Return whether a line can be written there now, or within this time."""
    room = select.poll()
    room.register(fd, select.POLLOUT)
    return bool(room.poll(patience_s * 1000))

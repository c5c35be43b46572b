"""Tells when something in some directories changes, also when they come and go themselves.

inotify(7) watches a directory that is there. One that is not, or is exchanged for another, is
noticed in the directories above it, of which only the one entry that leads to it counts.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final

from paddock.errors import RulesError

# <sys/inotify.h>
IN_ATTRIB: Final = 0x0004
IN_CLOSE_WRITE: Final = 0x0008
IN_MOVED_FROM: Final = 0x0040
IN_MOVED_TO: Final = 0x0080
IN_CREATE: Final = 0x0100
IN_DELETE: Final = 0x0200
IN_DELETE_SELF: Final = 0x0400
IN_MOVE_SELF: Final = 0x0800
IN_Q_OVERFLOW: Final = 0x4000
IN_ONLYDIR: Final = 0x0100_0000
IN_MASK_ADD: Final = 0x2000_0000

STRUCTURE: Final = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR
CONTENT: Final = STRUCTURE | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF

EVENT = struct.Struct("iIII")
READ_BYTES = 64 * 1024
"""At once; the longest event has 272 bytes."""

_libc = ctypes.CDLL(None, use_errno=True)


class DirectoryWatch:
    """Watches directories while its `with` block lasts. For one event loop and one waiter."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = [Path(os.path.abspath(directory)) for directory in directories]
        self._descriptor = -1
        self._entries: dict[int, set[bytes] | None] = {}
        """By watch: the entries that count, None if all do."""
        self._changed = asyncio.Event()

    def __enter__(self) -> DirectoryWatch:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            reason = os.strerror(ctypes.get_errno())
            raise RulesError(f"can't watch rules for changes: {reason}; raise fs.inotify.max_user_instances")
        self.renew()
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    async def changed(self) -> None:
        """Wait for a change since the last call returned."""
        await self._changed.wait()
        self._changed.clear()

    def renew(self) -> None:
        """Watch what is there now; to be called after every change."""
        self._entries.clear()
        for directory in self._directories:
            self._watch(directory, CONTENT, None)
            for parent in directory.parents:
                self._watch(parent, STRUCTURE, os.fsencode(directory.relative_to(parent).parts[0]))

    def _watch(self, directory: Path, events: int, entry: bytes | None) -> None:
        # One directory may be above a layer and hold another; it has one watch for both.
        watch = _libc.inotify_add_watch(self._descriptor, os.fsencode(directory), events | IN_MASK_ADD)
        if watch < 0:
            if ctypes.get_errno() == errno.ENOSPC:
                raise RulesError("can't watch rules for changes; raise fs.inotify.max_user_watches")
            return
        if entry is None:
            self._entries[watch] = None
            return
        known = self._entries.setdefault(watch, set())
        if known is not None:
            known.add(entry)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            watch, events, _, length = EVENT.unpack_from(data, position)
            position += EVENT.size
            name = data[position : position + length].rstrip(b"\0")
            position += length
            entries = self._entries.get(watch, set())
            if events & IN_Q_OVERFLOW or entries is None or name in entries:
                self._changed.set()

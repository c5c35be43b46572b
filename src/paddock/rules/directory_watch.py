"""Reports changes in directories, even when the directories themselves come and go.

inotify(7) can only watch a directory that exists. To notice that one appears, or is exchanged for
another, this module watches the directories above it, for the one entry that leads to it.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final

from paddock.errors import RulesError
from paddock.inotify import Inotify, Notice

STRUCTURE: Final = Notice.CREATE | Notice.DELETE | Notice.MOVED_FROM | Notice.MOVED_TO
CONTENT: Final = STRUCTURE | Notice.CLOSE_WRITE | Notice.ATTRIB | Notice.DELETE_SELF | Notice.MOVE_SELF
"""A file counts once its writer has closed it: before that it is incomplete."""


class DirectoryWatch:
    """Watches directories while its `with` block lasts. For one event loop and one waiter."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self._directories = [Path(os.path.abspath(directory)) for directory in directories]
        self._inotify: Inotify
        self._entries: dict[int, set[bytes] | None] = {}
        """The entries that count, by watch; None if all do."""
        self._changed = asyncio.Event()

    def __enter__(self) -> DirectoryWatch:
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise RulesError(
                f"can't watch rules for changes: {error.strerror}; raise fs.inotify.max_user_instances"
            ) from error
        try:
            self.renew()
        except BaseException:
            self._inotify.close()
            raise
        asyncio.get_running_loop().add_reader(self._inotify.descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._inotify.descriptor)
        self._inotify.close()

    async def changed(self) -> None:
        """Wait for a change since the last call returned."""
        await self._changed.wait()
        self._changed.clear()

    def renew(self) -> None:
        """Watch what exists now, and nothing else. Call it after every change. Raises RulesError."""
        before, self._entries = self._entries, {}
        for directory in self._directories:
            self._watch(directory, CONTENT, None)
            for parent in directory.parents:
                self._watch(parent, STRUCTURE, os.fsencode(directory.relative_to(parent).parts[0]))
        for watch in before.keys() - self._entries.keys():
            self._inotify.remove(watch)

    def _watch(self, directory: Path, interest: Notice, entry: bytes | None) -> None:
        try:
            # One directory may be above a layer and hold another; it has one watch for both.
            watch = self._inotify.add(os.fsencode(directory), interest | Notice.MASK_ADD, follow=True)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise RulesError(
                    "can't watch rules for changes; raise fs.inotify.max_user_watches"
                ) from error
            # The watches above notice a directory that is missing or unreadable.
            return
        if entry is None:
            self._entries[watch] = None
            return
        known = self._entries.setdefault(watch, set())
        if known is not None:
            known.add(entry)

    def _read(self) -> None:
        for watch, mask, name, _ in self._inotify.read():
            entries = self._entries.get(watch, set())
            if mask & Notice.Q_OVERFLOW or entries is None or name in entries:
                self._changed.set()

"""A watch for paths that do not exist yet, and for one that does: it tells once when that changes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from paddock.fs.sight import Place, Sight, below, held, require_sight
from paddock.fs.watch_set import WatchSet
from paddock.inotify import RawNotice

_SILENT = (b"/proc", b"/sys")
"""File systems that give no notices."""


class _Look(NamedTuple):
    added: list[int]
    has_changed: bool


class MissingWatch:
    """Listens where the paths would appear. `on_changed` is called once, when one of them does.

    With a `sight`, whoever asked must look himself at what is out of it, or is reached through links.
    """

    def __init__(
        self,
        watches: WatchSet,
        missing: Sequence[bytes],
        present: bytes | None,
        on_changed: Callable[[], None],
        sight: Sight | None = None,
    ) -> None:
        self._watches = watches
        self._sight = sight
        self._missing = missing
        self._present = present
        self._on_changed = on_changed
        self._directories: set[int] = set()
        self._is_over = False
        self._is_looking = False
        self._is_stale = False

    async def begin(self) -> bool:
        """Watch from now on; False, and nothing is watched, if there is nothing to wait for."""
        await self._watches.scan(self._look, self._register_first)
        return not self._is_over

    def end(self) -> None:
        """Tell nothing any more. Idempotent."""
        self._is_over = True
        for watch in self._directories:
            self._watches.forget(watch, self)
        self._directories.clear()

    # --- Subscriber ---------------------------------------------------------

    def heard(self, _directory: bytes, _notice: RawNotice) -> None:
        """Look again: it may be one of the paths, or a directory on the way to it."""
        self._look_again()

    def overflowed(self) -> None:
        """Look again: it may have been one of the paths."""
        self._look_again()

    def _look_again(self) -> None:
        if self._is_over:
            return
        if self._is_looking:
            self._is_stale = True
            return
        self._is_looking = True
        self._watches.spawn_scan(self._look, self._register)

    # --- in a thread --------------------------------------------------------

    def _look(self) -> _Look:
        """Watch the nearest directory of each path, and see whether something has changed already."""
        added: list[int] = []
        try:
            for path in (*self._missing, *([self._present] if self._present is not None else [])):
                watch = self._add_nearest(os.path.dirname(path))
                if watch is None:
                    return _Look(added, has_changed=True)
                added.append(watch)
            # After the directories were added, so that nothing can happen unseen.
            has_appeared = any(map(self._is_there, self._missing))
            has_vanished = self._present is not None and not self._is_there(self._present)
        except OSError:
            return _Look(added, has_changed=True)
        return _Look(added, has_changed=has_appeared or has_vanished)

    def _is_there(self, path: bytes) -> bool:
        """Whether there is something, if only a link. Raises PermissionError for what may not be seen."""
        if self._sight is None:
            return os.path.lexists(path)
        directory, name = os.path.split(path)
        try:
            with self._held(directory) as place:
                require_sight(self._sight, path)
                return os.path.lexists(below(place.path, name))
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextmanager
    def _held(self, directory: bytes) -> Iterator[Place]:
        with held(directory, follow=True) as place:
            # A path with links may lead through what is out of sight, and so would tell of it.
            if place.real != directory:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            require_sight(self._sight, directory)
            yield place

    def _add_nearest(self, directory: bytes) -> int | None:
        while True:
            if directory in _SILENT or directory.startswith(tuple(silent + b"/" for silent in _SILENT)):
                return None
            try:
                if self._sight is None:
                    return self._watches.inotify.add(directory, follow=True)
                with self._held(directory) as place:
                    return self._watches.inotify.add(place.path, follow=True)
            except FileNotFoundError:
                directory = os.path.dirname(directory)

    # --- on the loop --------------------------------------------------------

    def _register_first(self, look: _Look) -> None:
        self._listen(look.added)
        if look.has_changed or self._is_over:
            self.end()

    def _register(self, look: _Look) -> None:
        self._is_looking = False
        is_over = self._is_over
        self._listen(look.added)
        if look.has_changed or is_over:
            self.end()
            if not is_over:
                self._on_changed()
        elif self._is_stale:
            self._is_stale = False
            self._look_again()

    def _listen(self, added: list[int]) -> None:
        for watch in added:
            self._watches.listen(watch, self, b"")
        for watch in self._directories - set(added):
            self._watches.forget(watch, self)
        self._directories = set(added)

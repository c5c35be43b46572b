"""A watch for paths that do not exist yet, and for one that does: it tells once when that changes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from paddock.errors import RequestError
from paddock.fs.resolve import open_directory
from paddock.fs.sight import HeldDirectory, Sight, require_sight
from paddock.fs.watch_set import Place, WatchSet
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
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._directories: set[int] = set()
        self._place = Place(watches.join(self))
        self._is_over = False
        self._is_stale = True
        """Whether something has happened since the last look began."""

    async def begin(self) -> bool:
        """Watch from now on; False, and nothing is watched, if there is nothing to wait for.

        Raises RequestError when nobody could look.
        """
        self._watches.want_look(self._place.subscriber)
        try:
            await self._begun
        except BaseException:
            self.end()
            raise
        return not self._is_over

    def end(self) -> None:
        """Tell nothing any more. Idempotent."""
        if not self._is_over:
            self._is_over = True
            if not self._begun.done():
                self._begun.set_result(None)
            directories, self._directories = self._directories, set()
            self._watches.leave(self._place.subscriber, self._forget(directories))

    # --- Subscriber ---------------------------------------------------------

    def heard(self, _place: Place, _notice: RawNotice) -> Iterator[None]:
        """Look again: it may be one of the paths, or a directory on the way to it."""
        return self.overflowed()

    def overflowed(self) -> Iterator[None]:
        """Look again: it may have been one of the paths."""
        if not self._is_over:
            self._is_stale = True
            self._watches.want_look(self._place.subscriber)
        yield

    def next_look(self) -> Callable[[], _Look] | None:
        """Look, if something has happened since the last time."""
        if self._is_over or not self._is_stale:
            return None
        self._is_stale = False
        return self._look

    def looked(self, look: _Look) -> Iterator[None]:
        """Listen where the paths would appear now, or tell that one has."""
        if self._is_over or look.has_changed:
            for watch in look.added:
                self._watches.abandon(watch)
                yield
            if not self._is_over:
                is_first = not self._begun.done()
                self.end()
                if not is_first:
                    self._on_changed()
            return
        added = set(look.added)
        for watch in added - self._directories:
            self._watches.listen(watch, self._place)
            yield
        left, self._directories = self._directories - added, added
        yield from self._forget(left)
        if not self._begun.done():
            self._begun.set_result(None)

    def look_failed(self, problem: RequestError) -> None:
        """Nobody could look: the client has to."""
        if not self._begun.done():
            self._begun.set_exception(problem)
        elif not self._is_over:
            self.end()
            self._on_changed()

    def _forget(self, directories: set[int]) -> Iterator[None]:
        for watch in directories:
            self._watches.forget(watch, self._place)
            yield

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
            with self._held(directory) as held:
                require_sight(self._sight, path)
                is_there = _is_in(held, name)
                if not held.is_at(directory):
                    # It was moved on: what was seen in it is perhaps out of sight.
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                return is_there
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextmanager
    def _held(self, directory: bytes) -> Iterator[HeldDirectory]:
        # A path with links may lead through what is out of sight, and so would tell of it.
        require_sight(self._sight, directory)
        with HeldDirectory(open_directory(directory)) as held:
            if not held.is_at(directory):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            yield held

    def _add_nearest(self, directory: bytes) -> int | None:
        while True:
            if directory in _SILENT or directory.startswith(tuple(silent + b"/" for silent in _SILENT)):
                return None
            try:
                if self._sight is None:
                    return self._watches.inotify.add(directory, follow=True)
                with self._held(directory) as held:
                    return self._watches.inotify.add(held.path, follow=True)
            except FileNotFoundError:
                directory = os.path.dirname(directory)


def _is_in(held: HeldDirectory, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=held.file, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True

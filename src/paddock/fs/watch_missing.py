"""A watch for paths that do not exist yet, and for one that does: it notifies once when that changes.

A round examines each path, a few of them in each look of a thread, so that nobody waits long for the thread.
A notice starts another round.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from paddock.errors import RequestError
from paddock.fs.read_filter import HeldDirectory, ReadFilter, require_open, require_readable, require_way
from paddock.fs.resolve import open_directory
from paddock.fs.watch_set import Subscription, WatchSet
from paddock.inotify import RawNotice

PATHS_AT_ONCE = 32
"""Paths per look: each takes a dozen system calls, which follow 2000 names at most."""

_SILENT = (b"/proc", b"/sys")
"""File systems that give no notices."""


class _Expected(NamedTuple):
    path: bytes
    is_there: bool


class _Look(NamedTuple):
    added: list[int]
    has_changed: bool


class MissingWatch:
    """Listens where the paths would appear. `on_changed` is called once, when one of them does.

    With a `read_filter`, the caller must check paths itself that the filter hides or that lead through links.
    """

    def __init__(
        self,
        watches: WatchSet,
        missing: Sequence[bytes],
        present: bytes | None,
        on_changed: Callable[[], None],
        read_filter: ReadFilter | None = None,
    ) -> None:
        self._watches = watches
        self._read_filter = read_filter
        self._missing = missing
        self._present = present
        self._on_changed = on_changed
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._directories: set[int] = set()
        self._subscription = Subscription(watches.join(self))
        self._is_over = False
        self._is_stale = True
        """Whether something has happened since the last round began."""
        self._left: list[_Expected] = []
        """Paths that this round still has to examine."""
        self._found: set[int] = set()
        """Directories that this round has added."""

    async def begin(self) -> bool:
        """Watch from now on. Return False, and watch nothing, if there is nothing to wait for.

        Raises RequestError if the paths could not be examined.
        """
        self._watches.want_look(self._subscription.subscriber)
        try:
            await self._begun
        except BaseException:
            self.end()
            raise
        return not self._is_over

    def end(self) -> None:
        """Stop reporting. Idempotent."""
        if not self._is_over:
            self._is_over = True
            if not self._begun.done():
                self._begun.set_result(None)
            directories, self._directories = self._directories, set()
            self._watches.leave(self._subscription.subscriber, self._forget(directories))

    # --- Subscriber ---------------------------------------------------------

    def heard(self, _subscription: Subscription, _notice: RawNotice) -> Iterator[None]:
        """Look again: the notice may be about one of the paths, or a directory above it."""
        return self.overflowed()

    def overflowed(self) -> Iterator[None]:
        """Look again: a lost notice may have been about one of the paths."""
        if not self._is_over:
            self._is_stale = True
            self._watches.want_look(self._subscription.subscriber)
        yield

    def next_look(self) -> Callable[[], _Look] | None:
        """Look at some paths, if something has happened since the last time."""
        if self._is_over:
            return None
        if not self._left:
            if not self._is_stale:
                return None
            self._is_stale = False
            self._left = [_Expected(path, is_there=False) for path in self._missing]
            if self._present is not None:
                self._left.append(_Expected(self._present, is_there=True))
        chosen, self._left = self._left[:PATHS_AT_ONCE], self._left[PATHS_AT_ONCE:]
        return partial(self._look, chosen)

    def looked(self, look: _Look) -> Iterator[None]:
        """Listen where the paths would appear now, or report that one has."""
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
        for watch in set(look.added) - self._directories:
            self._directories.add(watch)
            self._watches.listen(watch, self._subscription)
            yield
        self._found.update(look.added)
        if self._left:
            return
        gone, self._directories, self._found = self._directories - self._found, self._found, set()
        yield from self._forget(gone)
        if not self._begun.done():
            self._begun.set_result(None)

    def look_failed(self, problem: RequestError) -> None:
        """End the watch: the paths could not be examined, so the client has to."""
        if not self._begun.done():
            self._begun.set_exception(problem)
        elif not self._is_over:
            self.end()
            self._on_changed()

    def _forget(self, directories: set[int]) -> Iterator[None]:
        for watch in directories:
            self._watches.forget(watch, self._subscription)
            yield

    # --- in a thread --------------------------------------------------------

    def _look(self, paths: Sequence[_Expected]) -> _Look:
        """Watch the nearest directory of each path, and see whether something has changed already."""
        added: list[int] = []
        try:
            for path, is_there in paths:
                if self._is_over:
                    break
                watch = self._add_nearest(os.path.dirname(path))
                if watch is None:
                    return _Look(added, has_changed=True)
                added.append(watch)
                # Look after adding the directory, so that nothing can happen unseen.
                if self._is_there(path) is not is_there:
                    return _Look(added, has_changed=True)
        except OSError:
            return _Look(added, has_changed=True)
        return _Look(added, has_changed=False)

    def _is_there(self, path: bytes) -> bool:
        """Return whether anything is there, even just a link. Raises PermissionError if it can't be seen."""
        if self._read_filter is None:
            return os.path.lexists(path)
        directory, name = os.path.split(path)
        try:
            with self._held(directory) as held:
                require_readable(self._read_filter, path)
                is_there = _is_in(held, name)
                if not held.is_at(directory):
                    # The directory was moved: the filter may hide now what was seen in it.
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                return is_there
        except (FileNotFoundError, NotADirectoryError):
            return False

    @contextmanager
    def _held(self, directory: bytes) -> Iterator[HeldDirectory]:
        # A path with links may lead through hidden directories, and so reveal them.
        require_readable(self._read_filter, directory)
        require_way(directory)
        with HeldDirectory(open_directory(directory)) as held:
            require_open(held)
            if not held.is_at(directory):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            yield held

    def _add_nearest(self, directory: bytes) -> int | None:
        if directory in _SILENT or directory.startswith(tuple(silent + b"/" for silent in _SILENT)):
            return None
        require_readable(self._read_filter, directory)
        while True:
            directory = self._nearest(directory)
            try:
                if self._read_filter is None:
                    return self._watches.inotify.add(directory, follow=True)
                with self._held(directory) as held:
                    return self._watches.inotify.add(held.path, follow=True)
            except FileNotFoundError:
                # Gone in between.
                directory = os.path.dirname(directory)

    def _nearest(self, directory: bytes) -> bytes:
        """Find the deepest directory of a path that exists. Takes few steps even for a long path."""
        if self._has_directory(directory):
            return directory
        names = directory.split(b"/")
        there, missing = 1, len(names)
        while missing - there > 1:
            middle = (there + missing) // 2
            if self._has_directory(b"/".join(names[:middle])):
                there = middle
            else:
                missing = middle
        return b"/".join(names[:there]) or b"/"

    def _has_directory(self, path: bytes) -> bool:
        try:
            if self._read_filter is None:
                os.stat(path)
            elif self._read_filter(path):
                os.close(open_directory(path))
            # Don't look at what the filter hides: if the search ends there, adding the directory is refused.
        except FileNotFoundError:
            return False
        return True


def _is_in(held: HeldDirectory, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=held.file, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True

"""The watches of one client, on one inotify queue.

Trees are looked through in a thread, because they may be large, and everything else happens on
the loop. Notices that come for a directory before the loop has heard of it are kept for it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from paddock.errors import OperationFailed, RequestError
from paddock.fs.failure import map_os_error
from paddock.fs.local import Lanes
from paddock.inotify import Inotify, Notice, RawNotice

T = TypeVar("T")

MAX_EARLY_NOTICES = 4096
"""Notices kept for directories that are just being added; more are an overflow."""


class Subscriber(Protocol):
    """Whoever has asked for notices of directories."""

    def heard(self, directory: bytes, notice: RawNotice) -> None:
        """Something happened in a directory, or to it."""

    def overflowed(self) -> None:
        """Notices were lost."""


class WatchSet:
    """An inotify queue and who listens to which part of it. `aclose` must follow.

    Raises OperationFailed when the user has as many queues as the host allows.
    """

    def __init__(self, lanes: Lanes) -> None:
        try:
            self.inotify = Inotify()
        except OSError as error:
            raise OperationFailed(
                f"can't watch files: {error.strerror} (os error {error.errno}); "
                "the host allows as many watchers per user as fs.inotify.max_user_instances says"
            ) from error
        self._lanes = lanes
        self._loop = asyncio.get_running_loop()
        self._listeners: dict[int, dict[Subscriber, bytes]] = {}
        self._early: list[RawNotice] = []
        self._has_lost_early = False
        self._scans = 0
        self._unused: set[int] = set()
        """Directories that nobody listens to, unless a scan has just added them again."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        self._loop.add_reader(self.inotify.descriptor, self._read)

    # --- for subscribers ----------------------------------------------------

    async def scan(self, work: Callable[[], T], register: Callable[[T], None]) -> T:
        """Have a thread add directories to `inotify`; `register` then says whose they are.

        `register` is called even if the caller is cancelled, for the directories are added then.
        `work` must not raise.
        """
        self._scans += 1
        future = self._lanes.bulk.submit(work)
        future.add_done_callback(lambda done: self._scanned(done, register))
        return await asyncio.shield(future)

    def spawn_scan(self, work: Callable[[], T], register: Callable[[T], None]) -> None:
        """The same, for nobody who waits."""
        task = self._loop.create_task(self.scan(work, register))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def listen(self, watch: int, subscriber: Subscriber, directory: bytes) -> None:
        """Tell a subscriber of what happens in a directory that was added."""
        self._listeners.setdefault(watch, {})[subscriber] = directory

    def forget(self, watch: int, subscriber: Subscriber) -> None:
        """Tell it no more; a directory that nobody listens to is watched no longer."""
        listeners = self._listeners.get(watch, {})
        listeners.pop(subscriber, None)
        if not listeners and self._listeners.pop(watch, None) is not None:
            self._unused.add(watch)
            self._remove_unused()

    async def aclose(self) -> None:
        """End every watch."""
        self._is_closed = True
        self._loop.remove_reader(self.inotify.descriptor)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if not self._scans:
            self.inotify.close()

    # --- on the loop --------------------------------------------------------

    def _scanned(self, done: asyncio.Future[T], register: Callable[[T], None]) -> None:
        self._scans -= 1
        if self._is_closed:
            # The descriptor was left open for the thread: its number must not name another file meanwhile.
            if not self._scans:
                self.inotify.close()
            return
        if not done.cancelled() and done.exception() is None:
            register(done.result())
        self._remove_unused()
        early, self._early = self._early, []
        for notice in early:
            self._dispatch(notice)
        if self._has_lost_early:
            self._has_lost_early = False
            self._overflow()

    def _remove_unused(self) -> None:
        if not self._scans:
            for watch in self._unused - self._listeners.keys():
                self.inotify.remove(watch)
            self._unused.clear()

    def _read(self) -> None:
        for notice in self.inotify.read():
            self._dispatch(notice)

    def _dispatch(self, notice: RawNotice) -> None:
        if notice.mask & Notice.Q_OVERFLOW:
            self._overflow()
            return
        listeners = self._listeners.get(notice.watch)
        if listeners is None:
            if self._scans:
                self._keep(notice)
            return
        if notice.mask & Notice.IGNORED:
            del self._listeners[notice.watch]
        for subscriber, directory in list(listeners.items()):
            subscriber.heard(directory, notice)

    def _keep(self, notice: RawNotice) -> None:
        if len(self._early) < MAX_EARLY_NOTICES:
            self._early.append(notice)
        else:
            self._has_lost_early = True

    def _overflow(self) -> None:
        for subscriber in {each for listeners in self._listeners.values() for each in listeners}:
            subscriber.overflowed()


def watch_error(error: OSError, path: bytes) -> RequestError:
    """The exception for a directory that can't be watched."""
    if error.errno == errno.ENOSPC:
        return OperationFailed(
            f"can't watch {path.decode('utf-8', 'replace')!r}: the host allows no more watched directories; "
            "watch a smaller tree, or raise fs.inotify.max_user_watches"
        )
    return map_os_error(error, "watch", path)

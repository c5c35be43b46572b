"""The watches of one client, on one inotify queue.

Subscribers look at directories in a thread, one look at a time, and each look is bounded. The queue is read
between two looks. So whatever a look has added is registered before its first notice is read, and notices are
handled in the order of events. Handling them on the loop takes small steps (`StepScheduler`).

The queue has one owner at a time: the looking thread during a look, and `aclose` closes it afterwards.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from paddock.errors import OperationFailed, RequestError
from paddock.fs.failure import map_os_error
from paddock.fs.lane import CLOSE_TIMEOUT_S
from paddock.fs.lanes import Lanes
from paddock.inotify import Inotify, Notice, RawNotice
from paddock.journal import Journal

T = TypeVar("T")

MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Limit for the directories that all watches of one client keep: about 120,000 with short paths."""

REMOVED_AT_ONCE = 1024
"""Directories that one job of a thread stops watching."""

_journal = Journal(logging.getLogger(__name__))


class Subscription(msgspec.Struct, gc=False, eq=False):
    """A directory that a subscriber listens to.

    There are many of them while a watch lasts, and the garbage collector would stop the loop to visit each.
    So they are not tracked by it and must not be part of a cycle: the subscriber is a number.
    """

    subscriber: int
    """The number that `WatchSet.join` returned."""


class Subscriber(Protocol):
    """Receives notices of directories. The set calls all methods on the loop.

    Methods that return an iterator do their work in its steps, each of which is small.
    """

    def heard(self, subscription: Any, notice: RawNotice) -> Iterator[None]:
        """Handle a notice: something happened in a directory, or to it.

        `subscription` is the one passed to `WatchSet.listen`.
        """

    def overflowed(self) -> Iterator[None]:
        """Handle the loss of notices."""

    def next_look(self) -> Callable[[], Any] | None:
        """Return the next job for a thread, which is bounded and does not raise; None if there is none."""

    def looked(self, found: Any) -> Iterator[None]:
        """Take the result of a look."""

    def look_failed(self, problem: RequestError) -> None:
        """Handle a look that failed."""


class WatchSet:
    """An inotify queue and its subscribers. `aclose` must follow.

    Raises OperationFailed if the user has as many queues, or descriptors to wait for, as the host allows.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            self.inotify = Inotify()
        except OSError as error:
            raise OperationFailed(
                f"can't watch files: {error.strerror} (os error {error.errno}); "
                "the host allows as many watchers per user as fs.inotify.max_user_instances says"
            ) from error
        try:
            self._loop.add_reader(self.inotify.descriptor, self._readable)
        except OSError as error:
            self.inotify.close()
            raise OperationFailed(
                f"can't watch files: {error.strerror} (os error {error.errno}); "
                "the host allows as many descriptors to wait for as fs.epoll.max_user_watches says"
            ) from error
        self.readings = 0
        """How often the queue was read. An event happened before the read that returned its notice."""
        self._lanes = lanes
        self._subscribers: dict[int, Subscriber] = {}
        self._last_number = 0
        self._listeners: dict[int, Subscription | tuple[Subscription, ...]] = {}
        """By watch; a tuple only where several listen to one directory."""
        self._kept_bytes = 0
        self._unused: set[int] = set()
        """Directories that nobody listens to, unless somebody has begun to since."""
        self._lookers: dict[int, None] = {}
        """The watches that have directories to examine, in the order of their turns."""
        self._chores: deque[Iterator[None]] = deque()
        self._job: asyncio.Future[Any] | None = None
        self._is_readable = False
        self._is_due = asyncio.Event()
        self._running = self._loop.create_task(self._run())

    # --- for subscribers ----------------------------------------------------

    @property
    def left_bytes(self) -> int:
        """Return how much more may be kept; negative if the limit is exceeded."""
        return MAX_KEPT_BYTES - self._kept_bytes

    def keep(self, size_bytes: int) -> None:
        """Count what a subscriber keeps from now on, until it calls `release`."""
        self._kept_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Count what a subscriber no longer keeps."""
        self._kept_bytes -= size_bytes

    def join(self, subscriber: Subscriber) -> int:
        """Add a subscriber. Return its number, for `Subscription` and the methods below."""
        self._last_number += 1
        self._subscribers[self._last_number] = subscriber
        return self._last_number

    def leave(self, number: int, chore: Iterator[None]) -> None:
        """Remove a subscriber. `chore` does in steps what remains to be done, such as `forget`."""
        self._subscribers.pop(number, None)
        self._lookers.pop(number, None)
        self._chores.append(chore)
        self._is_due.set()

    def want_look(self, number: int) -> None:
        """Have a thread do the subscriber's `next_look` jobs until there are none."""
        if number in self._subscribers:
            self._lookers.setdefault(number, None)
            self._is_due.set()

    def listen(self, watch: int, subscription: Subscription) -> None:
        """Send a subscriber the notices of a directory that it has added in a look."""
        self._listeners[watch] = (
            (*self._listening(watch), subscription) if watch in self._listeners else subscription
        )

    def forget(self, watch: int, subscription: Subscription) -> None:
        """Send no more notices of a directory, and stop watching it if nobody else listens."""
        left = tuple(each for each in self._listening(watch) if each is not subscription)
        if left:
            self._listeners[watch] = left[0] if len(left) == 1 else left
        elif self._listeners.pop(watch, None) is not None:
            self.abandon(watch)

    def abandon(self, watch: int) -> None:
        """Stop watching a directory, unless somebody listens to it."""
        if watch not in self._listeners:
            self._unused.add(watch)
            self._is_due.set()

    async def aclose(self) -> None:
        """End every watch. Idempotent. Waits for a look that hangs in the kernel only for a moment.

        A thread closes the queue, because that takes the kernel long if it has many directories.
        """
        if not self._running.done():
            self._loop.remove_reader(self.inotify.descriptor)
            self._running.cancel()
            await asyncio.wait([self._running])
            if self._job is None or self._job.done():
                self._job = self._close()
            else:
                # The looking thread still uses the descriptor, so its number must not be reused.
                self._job.add_done_callback(lambda _: self._close())
        if self._job is not None:
            await asyncio.wait([self._job], timeout=CLOSE_TIMEOUT_S)

    def _close(self) -> asyncio.Future[None]:
        return self._lanes.bulk.submit_surely(self._tear_down)

    # --- in a thread --------------------------------------------------------

    def _tear_down(self) -> None:
        self.inotify.close()
        # One by one, because freeing all at once would hold up the interpreter.
        while self._listeners:
            self._listeners.popitem()
        while self._chores:
            for _ in self._chores.popleft():
                pass

    def _remove(self, watches: Iterable[int]) -> None:
        for watch in watches:
            self.inotify.remove(watch)

    # --- on the loop --------------------------------------------------------

    def _readable(self) -> None:
        self._loop.remove_reader(self.inotify.descriptor)
        self._is_readable = True
        self._is_due.set()

    async def _run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._do_chores()
                await self._look()
                await self._remove_unused()
                await self._hear()
            except Exception as error:
                _journal.error("a watch failed", error=error)
                await self._lanes.step_scheduler.run(self._overflow())
            if self._lookers or self._unused or self._chores:
                self._is_due.set()

    async def _do_chores(self) -> None:
        while self._chores:
            await self._lanes.step_scheduler.run(self._chores[0])
            self._chores.popleft()

    async def _look(self) -> None:
        if not self._lookers:
            return
        number = next(iter(self._lookers))
        del self._lookers[number]
        looker = self._subscribers[number]
        work = looker.next_look()
        if work is None:
            return
        try:
            found = await self._job_done(self._lanes.bulk.submit(work))
        except RequestError as problem:
            looker.look_failed(problem)
            return
        await self._lanes.step_scheduler.run(looker.looked(found))
        self.want_look(number)

    async def _remove_unused(self) -> None:
        if self._unused:
            taken = (self._unused.pop() for _ in range(min(len(self._unused), REMOVED_AT_ONCE)))
            removed = [watch for watch in taken if watch not in self._listeners]
            await self._job_done(self._lanes.bulk.submit_surely(partial(self._remove, removed)))

    async def _job_done(self, job: asyncio.Future[T]) -> T:
        """Wait for the current job. It goes on if the caller is cancelled, and `aclose` can see that."""
        self._job = job
        await asyncio.wait([job])
        return job.result()

    async def _hear(self) -> None:
        if self._is_readable:
            self._is_readable = False
            notices = self.inotify.read()
            self.readings += 1
            self._loop.add_reader(self.inotify.descriptor, self._readable)
            await self._lanes.step_scheduler.run(self._dispatch(notices))

    def _dispatch(self, notices: Iterable[RawNotice]) -> Iterator[None]:
        for notice in notices:
            yield
            if notice.mask & Notice.Q_OVERFLOW:
                yield from self._overflow()
                continue
            listening = self._listening(notice.watch)
            if notice.mask & Notice.IGNORED:
                self._listeners.pop(notice.watch, None)
            for subscription in listening:
                subscriber = self._subscribers.get(subscription.subscriber)
                if subscriber is not None:
                    yield from subscriber.heard(subscription, notice)
                yield

    def _listening(self, watch: int) -> tuple[Subscription, ...]:
        found = self._listeners.get(watch, ())
        return found if isinstance(found, tuple) else (found,)

    def _overflow(self) -> Iterator[None]:
        for subscriber in tuple(self._subscribers.values()):
            yield from subscriber.overflowed()


def watch_error(error: OSError, path: bytes) -> RequestError:
    """Return the exception for a directory that can't be watched."""
    if error.errno == errno.ENOSPC:
        return OperationFailed(
            f"can't watch {path.decode('utf-8', 'replace')!r}: the host allows no more watched directories; "
            "watch a smaller tree, or raise fs.inotify.max_user_watches"
        )
    return map_os_error(error, "watch", path)

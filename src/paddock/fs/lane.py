"""Threads for work that blocks, driven from one event loop.

Jobs begin in the order in which they were submitted. A lane has one thread while that thread keeps up: it
does short jobs one after the other and reports them together, which costs far less than waking a thread for
each. When a job takes long, the lane starts further threads, up to the limit. If it has no thread and can't
start one, the waiting jobs fail; the next job tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from paddock.fs.failure import no_thread

T = TypeVar("T")

PATIENCE_S = 0.005
"""How long a queue may stand still before it gets another thread, and how long a result waits for its
neighbours."""

REPORTED_TOGETHER = 16
"""Number of results after which to wake the loop even though more jobs wait."""

REPORTED_PER_TURN = 64
"""Results to hand on in one turn of the loop: their waiters then have work to do."""

CLOSE_TIMEOUT_S = 2.0
"""How long `aclose` waits for a thread stuck in the kernel, for example on a dead network file system."""

_Job = tuple[Callable[[], Any], asyncio.Future[Any]]
_Outcome = tuple[asyncio.Future[Any], Any, BaseException | None]


class Lane:
    """A queue of jobs and its threads. All methods belong to the loop's thread. `aclose` must follow."""

    def __init__(self, name: str, max_threads: int) -> None:
        self._name = name
        self._max_threads = max_threads
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._outcomes: deque[_Outcome] = deque()
        self._threads = 0
        self._unfinished = 0
        self._finished = 0
        self._finished_at_last_look = 0
        self._is_waking = False
        self._timer: asyncio.TimerHandle | None = None
        self._all_ended = asyncio.Event()
        self._all_ended.set()
        self._is_closed = False

    def submit(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a job. Cancelling the future prevents it only if it has not begun.

        The future raises OperationFailed if there is no thread and none can be started, or after `aclose`.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        if self._is_closed or (not self._threads and not self._add_thread()):
            future.set_exception(no_thread())
            return future
        self._unfinished += 1
        self._jobs.put((job, future))
        if self._timer is None:
            self._timer = self._loop.call_later(PATIENCE_S, self._look_after)
        return future

    def submit_surely(self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Queue a short job that must be done; do it here and now if no thread can be started, or after
        `aclose`."""
        if not self._is_closed and (self._threads or self._add_thread()):
            return self.submit(job)
        future: asyncio.Future[T] = self._loop.create_future()
        try:
            future.set_result(job())
        except Exception as error:
            future.set_exception(error)
        return future

    async def done(self, job: Callable[[], T], stuck_s: float) -> T:
        """Wait for the result of a job, however many are ahead of it.

        Raises TimeoutError if no job of the lane ends within that time.
        """
        future = self.submit(job)
        finished = -1
        while not future.done():
            if self._finished == finished:
                future.cancel()
                raise TimeoutError
            finished = self._finished
            await asyncio.wait([future], timeout=stuck_s)
        return future.result()

    async def aclose(self) -> None:
        """Finish what was submitted and end the threads. Bounded."""
        self._is_closed = True
        self._jobs.put(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._all_ended.wait()
        if self._timer is not None:
            self._timer.cancel()

    # --- on the loop --------------------------------------------------------

    def _add_thread(self) -> bool:
        """Start another thread. Return False if the system can't."""
        # A daemon: one that hangs in the kernel must not keep the server from ending.
        thread = threading.Thread(target=self._work, name=f"{self._name}-{self._threads + 1}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            # pthread_create(3): EAGAIN for a limit of processes or no memory for a stack.
            return False
        self._threads += 1
        self._all_ended.clear()
        return True

    def _look_after(self) -> None:
        self._timer = None
        self._deliver()
        if not self._unfinished:
            return
        stands_still = self._finished == self._finished_at_last_look
        # Of a closed lane the queue always holds the word for the next thread to end.
        if stands_still and self._jobs.qsize() > self._is_closed and self._threads < self._max_threads:
            self._add_thread()
        self._finished_at_last_look = self._finished
        self._timer = self._loop.call_later(PATIENCE_S, self._look_after)

    def _deliver(self) -> None:
        # Do this first, so that a thread that adds a result from now on wakes the loop again.
        self._is_waking = False
        for _ in range(REPORTED_PER_TURN):
            if not self._outcomes:
                return
            future, result, error = self._outcomes.popleft()
            self._unfinished -= 1
            self._finished += 1
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if self._outcomes and not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._deliver)

    def _thread_ended(self) -> None:
        self._deliver()
        self._threads -= 1
        if not self._threads:
            self._all_ended.set()

    # --- in a thread --------------------------------------------------------

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, future = job
            result, error = None, None
            if not future.cancelled():
                try:
                    result = work()
                except BaseException as problem:
                    error = problem
            self._outcomes.append((future, result, error))
            # The next job may take any time: the loop checks by itself after PATIENCE_S.
            if not self._is_waking and (self._jobs.empty() or len(self._outcomes) >= REPORTED_TOGETHER):
                self._is_waking = True
                self._tell(self._deliver)
            del job, work, future, result, error
        # For the next thread: some of them may have been started since the lane was closed.
        self._jobs.put(None)
        self._tell(self._thread_ended)

    def _tell(self, callback: Callable[[], None]) -> None:
        # The loop has ended without waiting: nobody wants the result.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

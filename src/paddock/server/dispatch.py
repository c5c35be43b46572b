"""Decides when a request runs. Knows queues and limits, and no method.

Ordinary requests run concurrently up to a bound and wait in order beyond it. Control requests have a queue of
their own with the same bound, so that a signal, a terminate or a status never waits behind them; only a
request that brings its own subject into being is never overtaken. A request that is parked, because it waits
until something happens to a process, does not count in its queue. Parked requests have a bound of their own,
beyond which they are refused. With `concurrency` 1 everything runs strictly in the order of arrival, parked
or not.

A handler that finishes without waiting costs no task. A long request takes a while to check, so what follows
it in its queue waits for a later turn of the loop. After a long answer everything waits for a later turn
(`rest`), and while the client leaves too many answers unread, nothing begins (`hold`). The connections of a
server share the time of these turns.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import Any, Final

from msgspec import Struct

from paddock.errors import TooManyWaits
from paddock.fs.step_scheduler import StepScheduler
from paddock.protocol.call import Call
from paddock.protocol.methods import RequestQueue
from paddock.protocol.structure import Params
from paddock.server.memory_budget import Grant
from paddock.transport.input_turns import InputTurns

# Looked up once, not per call.
_CONTROL: Final = RequestQueue.CONTROL

LONG_REQUEST_BYTES: Final = 4 * 1024
"""Text of a request, without bulk data. The checks of a longer one may take ten milliseconds. Most are
shorter; for the others a turn of the loop is little."""

Handler = Callable[[Call[Params]], Any]
"""Carries a call out: returns its result, or a coroutine of it, or Parked, or raises RequestError."""

Finish = Callable[[Call[Params], Any, Exception | None, float], None]
"""Called with the outcome of each call, in the order in which they finish, and with the time since which
it has waited, for its turn or in its handler; 0 if it did neither."""

Advanced = Callable[[], None]
"""Called when calls that had waited have begun, so that there may be room for others."""


class Then(Struct, frozen=True):
    """A result, or a RequestError, and the action to take once it has been sent."""

    outcome: Any
    action: Callable[[], None]


class Parked(Struct, frozen=True):
    """A coroutine of a result that does nothing but wait, perhaps for long, until somebody else acts."""

    work: Coroutine[Any, Any, Any]


_UNFINISHED = frozenset((Parked, CoroutineType))


class Encoded(Struct, frozen=True):
    """A successful answer whose message is already encoded, and the memory granted for it."""

    message: bytes | bytearray
    grant: Grant | None = None


class _Queue:
    """The requests of one kind that run, and those that wait for their turn."""

    __slots__ = ("is_resting", "limit", "running", "share", "waiting")

    def __init__(self, limit: int, turns: InputTurns) -> None:
        self.limit = limit
        self.share = turns.share()
        """Gives the turns in which it goes on after a rest."""
        self.running = 0
        self.is_resting = False
        """Whether nothing more begins in this turn of the loop."""
        self.waiting: deque[tuple[Call[Params], float]] = deque()


class Dispatcher:
    """Runs the calls of one connection. `aclose` cancels what is unfinished and waits for it.

    All dispatchers of a server share the `turns` and the `step_scheduler`.
    """

    def __init__(
        self,
        concurrency: int,
        max_parked: int,
        handler: Handler,
        finish: Finish,
        advanced: Advanced,
        turns: InputTurns,
        step_scheduler: StepScheduler,
    ) -> None:
        self._handler = handler
        self._finish = finish
        self._advanced = advanced
        self._step_scheduler = step_scheduler
        self._ordinary = _Queue(concurrency, turns)
        self._control = self._ordinary if concurrency == 1 else _Queue(concurrency, turns)
        self._parked = self._ordinary if concurrency == 1 else _Queue(max_parked, turns)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.waiting = 0
        """The number of calls that have not begun."""
        self.waiting_bytes = 0
        """The total size of the messages of those calls."""
        self.waiting_text_bytes = 0
        """The same without their bulk data."""
        self._subjects: Counter[str | None] = Counter()
        """The subjects of the ordinary calls among them."""
        self._opened: Counter[str | None] = Counter()
        """The same of calls that open their subject."""
        self._is_held = False
        self._is_closed = False

    def submit(self, call: Call[Params]) -> bool:
        """Run a call now, or when its turn comes. Return whether it runs now."""
        # Mostly nothing waits, and then nothing has to be followed.
        is_control = call.method.queue is _CONTROL and not (
            self._ordinary.waiting and self._must_follow(call)
        )
        queue = self._control if is_control else self._ordinary
        if queue.running < queue.limit and not (queue.waiting or queue.is_resting or self._is_held):
            self._begin(call, queue, 0.0)
            return True
        queue.waiting.append((call, perf_counter()))
        if queue is self._ordinary:
            self._count_subject(call, 1)
        self.waiting += 1
        self.waiting_bytes += call.size_bytes
        self.waiting_text_bytes += call.text_bytes
        return False

    def rest(self) -> None:
        """Begin nothing more in this turn of the loop."""
        self._rest(self._ordinary)
        self._rest(self._control)

    def hold(self) -> None:
        """Begin nothing more until `release`: answers would pile up."""
        self._is_held = True

    def release(self) -> None:
        """Go on after `hold`."""
        self._is_held = False
        for queue in (self._control, self._ordinary):
            # Announces nothing: the caller looks whether there is room.
            self._advance(queue)

    def stop(self) -> None:
        """Begin no more calls."""
        self._is_closed = True
        self._ordinary.waiting.clear()
        self._control.waiting.clear()
        self._subjects.clear()
        self._opened.clear()
        self.waiting = self.waiting_bytes = self.waiting_text_bytes = 0

    async def aclose(self) -> None:
        """Cancel everything that has not finished, a bounded number of calls in one turn of the loop."""
        self.stop()
        # Each that is parked takes 20 µs to end, and a client may lose many connections at once.
        await self._step_scheduler.run(_cancelled(tuple(self._tasks)))
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _must_follow(self, later: Call[Params]) -> bool:
        """Return whether a waiting request about the same subject must come first.

        It must if it opens the subject, or if this one closes it.
        """
        # Counted, not searched for: a client may have a thousand calls wait, and ask again and again.
        counted = self._subjects if later.method.is_closing else self._opened
        return later.subject in counted

    def _count_subject(self, call: Call[Params], count: int) -> None:
        for counted in (self._subjects, self._opened) if call.method.is_opening else (self._subjects,):
            counted[call.subject] += count
            if not counted[call.subject]:
                del counted[call.subject]

    def _begin(self, call: Call[Params], queue: _Queue, since_s: float) -> None:
        if call.size_bytes > LONG_REQUEST_BYTES and call.text_bytes > LONG_REQUEST_BYTES:
            self._rest(queue)
        try:
            result = self._handler(call)
        except Exception as error:
            self._finish(call, None, error, since_s)
            return
        if type(result) not in _UNFINISHED:
            self._finish(call, result, None, since_s)
            return
        if type(result) is Parked:
            result, queue = result.work, self._parked
            if queue.running >= queue.limit:
                result.close()
                self._finish(call, None, TooManyWaits(queue.limit), since_s)
                return
        self._run(call, result, queue, since_s or perf_counter())

    def _run(self, call: Call[Params], work: Coroutine[Any, Any, Any], queue: _Queue, since_s: float) -> None:
        queue.running += 1
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, call, queue, since_s))

    def _done(self, call: Call[Params], queue: _Queue, since_s: float, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        queue.running -= 1
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._finish(call, task.result(), None, since_s)
        elif isinstance(error, Exception):
            self._finish(call, None, error, since_s)
        else:
            raise error
        if queue.waiting and not queue.is_resting:
            self._advance(queue)
            # No parked request may finish, and announce room, before the connection reads another request.
            self._advanced()

    def _advance(self, queue: _Queue) -> None:
        while queue.waiting and queue.running < queue.limit and self._may_begin(queue):
            call, since_s = queue.waiting.popleft()
            if queue is self._ordinary:
                self._count_subject(call, -1)
            self.waiting -= 1
            self.waiting_bytes -= call.size_bytes
            self.waiting_text_bytes -= call.text_bytes
            self._begin(call, queue, since_s)

    def _may_begin(self, queue: _Queue) -> bool:
        return not (queue.is_resting or self._is_held or self._is_closed)

    def _rest(self, queue: _Queue) -> None:
        if not queue.is_resting:
            queue.is_resting = True
            queue.share.wait(partial(self._end_rest, queue))

    def _end_rest(self, queue: _Queue) -> None:
        queue.is_resting = False
        if queue.waiting:
            self._advance(queue)
            self._advanced()


def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[None]:
    """Cancel a task in each step."""
    for task in tasks:
        task.cancel()
        yield

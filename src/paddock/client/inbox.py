"""What the server has told about one process and nobody has read yet.

An `Inbox` puts events in order, keeps output until it is read, and lets any
number of tasks wait. It lives from before the start request, because events may
overtake its answer, until the last event; whoever still holds it then can read
the rest. It never sends anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from paddock.client.intake import Intake
from paddock.client.pending import Pending
from paddock.client.sequence import Sequencer
from paddock.errors import OutputOverrun, PaddockError
from paddock.model.stream import Stream
from paddock.protocol.process import ClosedEvent, ExitedEvent, OutputEvent

ProcessEvent = OutputEvent | ExitedEvent | ClosedEvent


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of what a process wrote. On a terminal, stdout and stderr are one stream."""

    stream: Stream
    data: bytes


class Inbox:
    """Events of one process; its unread output is accounted for in `intake`."""

    def __init__(self, process_id: str, intake: Intake[Inbox], *, is_kept_alive: bool = False) -> None:
        self.process_id = process_id
        self.is_kept_alive = is_kept_alive
        self.exit_code: int | None = None
        self.is_closed = False
        self.failure: PaddockError | None = None
        self._intake = intake
        self._events: Sequencer[ProcessEvent] = Sequencer()
        self._unread: deque[OutputEvent] = deque()
        self._is_discarding = False
        self._has_overrun = False
        self._reading: set[Pending[None]] = set()
        self._waiting: set[Pending[None]] = set()
        self._readers = 0
        self._bound = 0

    # --- events of the connection -------------------------------------------

    def receive(self, event: ProcessEvent) -> None:
        """Take an event, in whatever order they come. Raises ProtocolViolation for an impossible one."""
        if isinstance(event, ExitedEvent):
            # The status is true whatever output is still on its way.
            self.exit_code = event.exit_code
            _wake(self._waiting)
        for ready in self._events.push(event.seq, event):
            if isinstance(ready, OutputEvent):
                self._keep(ready)
            elif isinstance(ready, ClosedEvent):
                self.is_closed = True
                _wake(self._reading)

    def fail(self, failure: PaddockError) -> None:
        """Nothing more will be known of the process. What is unread can still be read."""
        if not self.is_closed and self.failure is None:
            self.failure = failure
            _wake(self._reading)
            _wake(self._waiting)

    @property
    def last_seq(self) -> int:
        """The number of the last event that was taken in order."""
        return self._events.last_seq

    def _keep(self, event: OutputEvent) -> None:
        if self._is_discarding or not event.chunk:
            return
        self._unread.append(event)
        _wake(self._reading)
        self._intake.add(self, len(event.chunk))

    def overrun(self) -> None:
        """Drop what is unread and what will come; readers are told."""
        self._has_overrun = True
        self.discard()
        _wake(self._reading)

    def discard(self) -> None:
        """Drop what is unread and what will come: nobody is left to read it."""
        self._is_discarding = True
        self._unread.clear()
        if unread := self._intake.unread_of(self):
            self._intake.remove(self, unread)

    # --- readers ------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """Whether somebody is in the middle of reading the output."""
        return self._readers > 0

    def add_reader(self) -> None:
        """Somebody begins to read; `remove_reader` must follow."""
        self._readers += 1
        if self._readers == 1:
            self._intake.wait(patient=self._bound, impatient=-self._bound)

    def remove_reader(self) -> None:
        """Somebody will not read on."""
        self._readers -= 1
        if self._readers == 0:
            self._intake.wait(patient=-self._bound, impatient=self._bound)

    async def next_output(self) -> Output | None:
        """The next piece of output, or None at its end.

        Raises OutputOverrun if some was dropped, or the failure when no more will come.
        Cancelling it loses nothing.
        """
        while True:
            if self._unread:
                event = self._unread.popleft()
                self._intake.remove(self, len(event.chunk))
                return Output(event.stream, event.chunk)
            if self._has_overrun:
                raise OutputOverrun(self.process_id, self._intake.limits.limit_bytes)
            if self.is_closed:
                return None
            self._raise_failure()
            await _change(self._reading, self._intake.impatience())

    # --- waiting ------------------------------------------------------------

    async def exited(self) -> int:
        """The exit status, as soon as it is known. Raises the failure when it will never be."""
        while self.exit_code is None:
            self._raise_failure()
            await _change(self._waiting, self.waiting())
        return self.exit_code

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For the time of a wait on the process itself: patient while somebody reads its output."""
        self._bound += 1
        self._wait(1)
        try:
            yield
        finally:
            self._bound -= 1
            self._wait(-1)

    def _wait(self, count: int) -> None:
        if self.is_read:
            self._intake.wait(patient=count)
        else:
            self._intake.wait(impatient=count)

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure.with_traceback(None)


async def _change(waiters: set[Pending[None]], urgency: AbstractContextManager[None]) -> None:
    waiter: Pending[None] = Pending()
    waiters.add(waiter)
    try:
        await waiter.wait(urgency)
    finally:
        waiters.discard(waiter)


def _wake(waiters: set[Pending[None]]) -> None:
    while waiters:
        waiters.pop().resolve(None)

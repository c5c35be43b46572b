"""Holds what the server has sent about one process until somebody reads it.

An `Inbox` puts events in order, keeps output until it is read, and lets any number of tasks wait. It lives
from before the start request, because events may overtake its answer, until the last event; a holder can
still read the rest after that. It outlives connections. It never sends anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct

from paddock.client.ending import Ending, ending_of
from paddock.client.event_sequence import EventSequence, Gap, Item, Piece, ProcessEvent
from paddock.client.flow_control import FlowControl
from paddock.client.pending import Pending
from paddock.errors import OutputOverrun, ProcessLost
from paddock.model.stream import Stream
from paddock.protocol.process import ReadResult
from paddock.protocol.process_event import ExitedEvent


class Output(Struct, frozen=True):
    """A piece of what a process wrote. On a terminal, stdout and stderr are one stream."""

    stream: Stream
    data: bytes


class Inbox:
    """Events of one process; its unread output is accounted for in `flow_control`."""

    def __init__(
        self,
        process_id: str,
        flow_control: FlowControl[Inbox],
        *,
        after_seq: int = 0,
        is_kept_alive: bool = False,
    ) -> None:
        self.process_id = process_id
        self.is_kept_alive = is_kept_alive
        self.is_started = False
        """Whether the server is known to have the process."""
        self.ending: Ending | None = None
        """How the process ended, if that is known."""
        self.failure: ProcessLost | None = None
        self.read_seq = after_seq
        """The number of the last piece that somebody has read."""
        self._flow_control = flow_control
        self._sequence = EventSequence(after_seq)
        self._unread: deque[Piece | Gap] = deque()
        self._unread_bytes = 0
        self._accounted_bytes = 0
        self._is_discarding = False
        self._has_overrun = False
        self._reading: set[Pending[None]] = set()
        self._waiting: set[Pending[None]] = set()
        self._readers = 0
        self._bound = 0

    # --- events of the connection -------------------------------------------

    def receive(self, event: ProcessEvent) -> None:
        """Take an event. Events may arrive in any order."""
        if isinstance(event, ExitedEvent):
            # The status is final, whatever output is still on its way.
            self._exit(event)
        self._keep(self._sequence.push(event))

    def merge(self, reading: ReadResult, *, is_page: bool = False) -> None:
        """Take the answer to a `process/read` after `last_seq` that was made on the current connection."""
        self._exit(reading)
        self._keep(self._sequence.merge(reading, is_page=is_page))
        if self._sequence.needs_read:
            return
        if reading.failure is not None:
            self.fail(ProcessLost(self.process_id, reading.failure))
        elif (reading.exited and reading.exit_code is None) or (reading.closed and not reading.exited):
            self.fail(ProcessLost(self.process_id, "the server does not know how it ended"))
        _wake(self._waiting)

    def cut(self) -> None:
        """Set `needs_read`: events may be missing, because the connection was lost or nobody listened."""
        self._sequence.cut()

    def fail(self, failure: ProcessLost) -> None:
        """End the inbox: no more news of the process will arrive. Unread output can still be read."""
        if not self.is_closed and self.failure is None:
            self.failure = failure
            _wake(self._reading)
            _wake(self._waiting)

    @property
    def last_seq(self) -> int:
        """Return the number of the last event that was taken in order."""
        return self._sequence.last_seq

    @property
    def needs_read(self) -> bool:
        """Return whether events are missing that only `process/read` can bring."""
        return self._sequence.needs_read

    @property
    def is_closed(self) -> bool:
        """Return whether the process has exited and all its output has arrived, read or not."""
        return self._sequence.is_closed

    @property
    def exit_code(self) -> int | None:
        """Return the exit status, if it is known."""
        return self.ending.exit_code if self.ending is not None else None

    def _exit(self, told: ExitedEvent | ReadResult) -> None:
        # The server reported everything the first time.
        if self.ending is None and (ending := ending_of(told)) is not None:
            self.ending = ending
            _wake(self._waiting)
            _wake(self._reading)

    def _keep(self, items: Sequence[Item]) -> None:
        if not self._is_discarding:
            for item in items:
                if isinstance(item, Gap):
                    self._unread.append(item)
                elif item.chunk:
                    self._unread.append(item)
                    self._unread_bytes += len(item.chunk)
        if items or self.is_closed:
            _wake(self._reading)
        self._account()

    def _account(self) -> None:
        size_bytes = 0 if self._is_discarding else self._unread_bytes + self._sequence.held_bytes
        change = size_bytes - self._accounted_bytes
        self._accounted_bytes = size_bytes
        if change > 0:
            self._flow_control.add(self, change)
        elif change < 0:
            self._flow_control.remove(self, -change)

    def overrun(self) -> None:
        """Drop unread and future output; readers get OutputOverrun."""
        self._has_overrun = True
        self.discard()
        _wake(self._reading)

    def discard(self) -> None:
        """Drop unread and future output, because nobody is left to read it."""
        self._is_discarding = True
        self._unread.clear()
        self._unread_bytes = 0
        self._account()

    # --- readers ------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """Return whether somebody is in the middle of reading the output."""
        return self._readers > 0

    def add_reader(self) -> None:
        """Note that a reader begins; `remove_reader` must follow."""
        self._readers += 1
        if self._readers == 1:
            self._flow_control.wait(patient=self._bound, impatient=-self._bound)

    def remove_reader(self) -> None:
        """Note that a reader has stopped."""
        self._readers -= 1
        if self._readers == 0:
            self._flow_control.wait(patient=-self._bound, impatient=self._bound)

    async def next_output(self) -> Output | Gap | None:
        """Return the next piece of output, or the gap in its place; None at the end.

        Raises OutputOverrun if some was dropped here, or ProcessLost when no more will
        come. Cancelling it loses nothing.
        """
        item = await self.next_item()
        return item if item is None or isinstance(item, Gap) else Output(item.stream, item.chunk)

    async def next_item(self, *, or_exit: bool = False) -> Piece | Gap | None:
        """Return what `next_output` returns, in the form in which it arrived, so that the caller can put it
        back.

        With `or_exit`, also return None once the exit is known and nothing is unread.
        """
        while True:
            if self._unread:
                return self.take_unread()
            if self._has_overrun:
                raise OutputOverrun(self.process_id, self._flow_control.limits.limit_bytes)
            if self.is_closed or (or_exit and self.ending is not None):
                return None
            self.raise_failure()
            await _change(self._reading, self._flow_control.impatience())

    def take_unread(self) -> Piece | Gap | None:
        """Take the next item if it has arrived, without waiting for it."""
        if not self._unread:
            return None
        item = self._unread.popleft()
        if isinstance(item, Gap):
            self.read_seq = item.to_seq
            return item
        self.read_seq = item.seq
        self._unread_bytes -= len(item.chunk)
        self._account()
        return item

    def put_back(self, pieces: Sequence[Piece]) -> None:
        """Let the next reader begin with pieces, or ends of pieces, that were taken and not used."""
        if self._is_discarding or not pieces:
            return
        self._unread.extendleft(reversed(pieces))
        self._unread_bytes += sum(len(piece.chunk) for piece in pieces)
        # A reader that goes on elsewhere reads the used part of a piece again, rather than missing the rest.
        self.read_seq = pieces[0].seq - 1
        _wake(self._reading)
        self._account()

    # --- waiting ------------------------------------------------------------

    async def exited(self) -> Ending:
        """Wait for the exit and return how the process ended.

        Raises ProcessLost when that will never be known.
        """
        while self.ending is None:
            self.raise_failure()
            await _change(self._waiting, self.waiting())
        return self.ending

    async def caught_up(self) -> None:
        """Wait until no event is missing. Raises ProcessLost when one will be missing for ever."""
        while self.needs_read:
            self.raise_failure()
            await _change(self._waiting, self.waiting())
        self.raise_failure()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the block as a wait on the process itself. It is patient while somebody reads the output."""
        self._bound += 1
        self._wait(1)
        try:
            yield
        finally:
            self._bound -= 1
            self._wait(-1)

    def _wait(self, count: int) -> None:
        if self.is_read:
            self._flow_control.wait(patient=count)
        else:
            self._flow_control.wait(impatient=count)

    def raise_failure(self) -> None:
        """Raise ProcessLost if no more news of the process can arrive."""
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

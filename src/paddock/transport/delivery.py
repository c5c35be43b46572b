"""Delivers messages for every kind of link: calls the receiver by the rules, and bounds the time to close.

`Delivery` is the only caller of a `Receiver`. It keeps the promises of `link`: order,
a pause that holds, a fault that ends the link instead of vanishing, and one last call.
`Introduction` serves those who open a link, and `CloseTimeout` bounds the time that a closing
one may take. None of them knows the medium.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from paddock.journal import Journal
from paddock.transport.link import Accept, Link, Received

if TYPE_CHECKING:
    from paddock.transport.link import Receiver

_journal = Journal(logging.getLogger(__name__))

MESSAGES_PER_TURN: Final = 256
"""Most messages that one turn of the loop takes from one peer, however short they are: others wait at most
some milliseconds."""


def _nothing() -> None:
    """Stand in for a callback that nobody needs."""


class Delivery:
    """The calls from one link to its receiver.

    Calls `reopen` when input may flow again after a pause, and `ended` after the
    receiver's last call, so that a listener can forget the link. What is held back is passed
    on in turns that `later` gives, by default the next ones of the loop.
    """

    def __init__(
        self,
        link: Link,
        *,
        reopen: Callable[[], None],
        ended: Callable[[], None] = _nothing,
        later: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self.is_open = True
        """Whether the link takes part in traffic; false from the moment either side ends it."""
        self.is_finished = False
        """Whether the receiver has had its last call."""
        self._link = link
        self._reopen = reopen
        self._ended = ended
        self._later = later
        self._receiver: Receiver = _Nobody()
        self._is_paused = False
        self._is_flowing = True
        """Whether a message goes straight on: the link is open, and holds nothing back."""
        self._held: deque[bytes] = deque()
        self._is_releasing = False
        """Whether a later turn is to pass on what is held back."""
        self._fault: Exception | None = None

    @property
    def is_paused(self) -> bool:
        """Return whether the owner asked for no more messages."""
        return self._is_paused

    @property
    def is_holding(self) -> bool:
        """Return whether the delivery would hold back a message that came now."""
        return self.is_open and not self._is_flowing

    @property
    def has_held(self) -> bool:
        """Return whether a message waits for the end of a pause, or for its turn."""
        return bool(self._held)

    def attach(self, accept: Accept) -> None:
        """Make the receiver. Must precede every other call except `stop`."""
        try:
            self._receiver = accept(self._link)
        except Exception as error:
            _journal.error("connection has no receiver", error=error, peer=self._link.peer)
            self.fail(error)

    def deliver(self, messages: Iterable[Received]) -> None:
        """Pass messages on, now or when the pause is over; drop them if the link is closing."""
        for message in messages:
            if self._is_flowing:
                try:
                    self._receiver.message_received(message)
                except Exception as error:
                    self._blame_receiver(error)
            elif self.is_open:
                # Also those that come after a resume_reading, while earlier ones are still held.
                self._held.append(bytes(message))

    def pause(self) -> None:
        """Hold messages back from now on. The link itself stops its input."""
        self._is_paused = True
        self._is_flowing = False

    def resume(self) -> None:
        """End the pause. `reopen` follows once nothing is held back any more."""
        if not self._is_paused:
            return
        self._is_paused = False
        if self._held:
            # Not from within this call: the owner may be in the middle of handling a message.
            self._release_soon()
        elif self.is_open:
            self._flow()

    def writing_paused(self) -> None:
        """Tell the receiver that output piles up."""
        if self.is_open:
            try:
                self._receiver.writing_paused()
            except Exception as error:
                self._blame_receiver(error)

    def writing_resumed(self) -> None:
        """Tell the receiver that output has drained."""
        if self.is_open:
            try:
                self._receiver.writing_resumed()
            except Exception as error:
                self._blame_receiver(error)

    def stop(self, fault: Exception | None = None) -> None:
        """Deliver nothing more, and discard held messages. Call `finish` later.

        The receiver gets `fault` as the reason, unless the link was ending anyway.
        """
        if self.is_open:
            self.is_open = False
            self._is_flowing = False
            self._fault = fault
            self._held.clear()

    def fail(self, fault: Exception) -> None:
        """Abort the link because of `fault`."""
        self.stop(fault)
        self._link.abort()

    def finish(self, error: Exception | None) -> None:
        """Make the last call, with the fault that came first, else with `error`. Idempotent."""
        if self.is_finished:
            return
        self.is_finished = True
        self.stop()
        try:
            self._receiver.link_closed(self._fault or error)
        except Exception as fault:
            _journal.error("receiver failed at the end", error=fault, peer=self._link.peer)
        finally:
            self._receiver = _Nobody()
            self._ended()

    def _release_soon(self) -> None:
        if not self._is_releasing:
            self._is_releasing = True
            later = self._later or asyncio.get_running_loop().call_soon
            later(self._release)

    def _release(self) -> None:
        self._is_releasing = False
        for _ in range(MESSAGES_PER_TURN):
            if not self._held or not self.is_open or self._is_paused:
                break
            try:
                self._receiver.message_received(self._held.popleft())
            except Exception as error:
                self._blame_receiver(error)
        if not self.is_open or self._is_paused:
            return
        if self._held:
            self._release_soon()
        else:
            self._flow()

    def _flow(self) -> None:
        self._is_flowing = True
        self._reopen()

    def _blame_receiver(self, error: Exception) -> None:
        _journal.error("receiver failed", error=error, peer=self._link.peer)
        self.fail(error)


class Introduction:
    """An `Accept` for code that opens a link and wants to raise what the real one raises.

    Until `confirm` drops it, a link that was refused has a receiver that ignores it: some
    transports cannot be dropped while they are being set up.
    """

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._refusal: Exception | None = None

    def __call__(self, link: Link) -> Receiver:
        """Make the receiver, or remember why there is none."""
        try:
            return self._accept(link)
        except Exception as error:
            self._refusal = error
            return _Nobody()

    def confirm(self, link: Link) -> None:
        """Return if there is a receiver; else drop the link and raise the reason."""
        if self._refusal is not None:
            link.abort()
            raise self._refusal


class _Nobody:
    """A receiver that ignores everything."""

    def message_received(self, message: Received) -> None:
        pass

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        pass


class CloseTimeout:
    """Aborts a closing link that makes no progress for `timeout_s`.

    Progress is a shrinking queue, so a big queue may take its time with a slow
    peer, and a peer that reads nothing, or does not answer the close, is dropped.
    """

    def __init__(self, link: Link, timeout_s: float) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the clock. Call `end` when the link has ended."""
        if self._timer is None:
            self._arm()

    def end(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._timeout_s, self._check, self._link.buffered_bytes)

    def _check(self, buffered_before: int) -> None:
        if self._link.buffered_bytes < buffered_before:
            self._arm()
        else:
            self._link.abort()

"""The two roles at the ends of a connection.

A `Link` carries whole messages to one peer. A `Receiver` is told what comes back.
Everything is a callback on the event loop's thread: there is no task per link and
none per message, because this is the hot path of the server. Neither role knows
what a message means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

Received = bytes | memoryview
"""A message that has come. A large one may be a view of a buffer of the transport's, which is good during the
call only: whoever keeps any of it makes a copy."""


class Receiver(Protocol):
    """The owner of a link, as the link sees it.

    An exception that leaves a callback is logged and the link is aborted.
    """

    def message_received(self, message: Received) -> None:
        """Take one whole message. Messages come in the order in which the peer sent them."""

    def writing_paused(self) -> None:
        """Stop sending if you can: queued output is above the high-water mark.

        May be called from within `Link.send`. Nothing is lost by going on; the
        queue grows.
        """

    def writing_resumed(self) -> None:
        """Send on: queued output is down to the low-water mark. Only ever follows `writing_paused`."""

    def link_closed(self, error: Exception | None) -> None:
        """Learn that the link is gone. Called exactly once, and last.

        `error` is None when either side ended it on purpose, this one by `close` or
        `abort`; else it tells the fault: a `TransportError`, a `ProtocolViolation` or
        what a callback of this receiver raised.
        """


class Link(ABC):
    """One open connection. All methods belong to the event loop's thread and never block."""

    peer: str
    """Who is at the other end, for logs and error messages: "ws 127.0.0.1:40312", "stdio"."""

    @abstractmethod
    def send(self, message: bytes | bytearray) -> None:
        """Queue one message, which must not change from now on. Ignored once the link is closing."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Get no more messages until `resume_reading`, not even those that have arrived.

        The peer is slowed down by its own full buffers. What is still held back when
        the link ends is discarded.
        """

    @abstractmethod
    def resume_reading(self) -> None:
        """Get messages again, first those held back, from a later turn of the loop."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Output that is queued and not yet handed to the kernel."""

    @property
    def is_silent(self) -> bool:
        """Return whether the peer let a ping go unanswered, and is kept only because its host is alive."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Deliver what is queued, then end the link.

        No more messages are received from now on. A peer that stops reading is dropped
        after the close timeout. Idempotent.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drop the link now; queued output is lost and the peer gets no close message. Idempotent."""


Accept = Callable[[Link], Receiver]
"""Makes the receiver of a new link. Called before the first message; it may send at once."""

"""The two roles at the ends of a connection.

A `Link` carries whole messages to one peer. A `Receiver` gets what comes back.
Everything is a callback on the event loop's thread: there is no task per link and
none per message, because this is the hot path of the server. Neither role knows
what a message means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

Received = bytes | memoryview
"""A received message. A large one may be a view of the transport's buffer, which is valid only during the
call: a receiver that keeps any of it makes a copy."""


class Receiver(Protocol):
    """The owner of a link, as the link sees it.

    If a callback raises, the link logs the exception and aborts.
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
        """Learn that the link has ended. Called exactly once, and last.

        `error` is None when either side ended it on purpose, this one by `close` or
        `abort`; otherwise it is the fault: a `TransportError`, a `ProtocolViolation` or
        an exception of a callback of this receiver.
        """


class Link(ABC):
    """One open connection. All methods belong to the event loop's thread and never block."""

    peer: str
    """The other end, for logs and error messages: "ws 127.0.0.1:40312", "stdio"."""

    @abstractmethod
    def send(self, message: bytes | bytearray) -> None:
        """Queue one message, which must not change from now on. Ignored once the link is closing."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Get no more messages until `resume_reading`, not even those that have arrived.

        Its own full buffers slow the peer down. The link discards messages that it still
        holds back when it ends.
        """

    @abstractmethod
    def resume_reading(self) -> None:
        """Get messages again, first those held back, from a later turn of the loop."""

    @property
    @abstractmethod
    def buffered_bytes(self) -> int:
        """Return how much output is queued and not yet handed to the kernel."""

    @property
    def is_silent(self) -> bool:
        """Return whether the peer let a ping go unanswered, and is kept only because its host is alive."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Deliver what is queued, then end the link.

        The receiver gets no more messages. The link drops a peer that stops reading after
        the close timeout. Idempotent.
        """

    @abstractmethod
    def abort(self) -> None:
        """Drop the link now; queued output is lost and the peer gets no close message. Idempotent."""


Accept = Callable[[Link], Receiver]
"""Makes the receiver of a new link. Called before the first message; it may send at once."""

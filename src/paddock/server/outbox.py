"""What a session needs of the connection that it is attached to."""

from __future__ import annotations

from typing import Protocol

from paddock.protocol.structure import Result


class Outbox(Protocol):
    """Where a session's notifications go while it is attached."""

    @property
    def is_congested(self) -> bool:
        """Return whether the client reads too slowly to be sent more output."""

    @property
    def has_extensions(self) -> bool:
        """Return whether the client wants more than the reference protocol's shapes."""

    def notify(self, method: str, params: Result, *, is_optional: bool = False) -> None:
        """Send a notification; an optional one only if the client asked for it."""

    def give_way(self) -> None:
        """End the connection, soon, if its client does not answer pings."""

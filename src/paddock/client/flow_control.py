"""Decides whether a connection should read on. Pure.

All processes share one connection, so to stop reading is the only way to slow a
server down, and it stops everything. It must not happen while somebody waits for
what only reading can bring, or two tasks could wait for each other for ever. The
rule, by how much output is unread on the whole connection:

    below the high-water mark      read
    up to the limit                read while anybody waits for the server; an answer is
                                   never more than a few full buffers away
    at the limit                   read only for those who must not wait. Output is dropped
                                   to make room, first of processes that nobody reads;
                                   whoever reads it later is told

Those who wait for a process itself, to take a write or to exit, are patient while
somebody reads its output: they wait for that reader, as they would with a pipe. This
is how a slow reader slows its process down. Everybody else is impatient.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from msgspec import Struct

K = TypeVar("K", bound=Hashable)

MIB: Final = 1 << 20


class FlowLimits(Struct, frozen=True, kw_only=True):
    """How much output may be unread on one connection."""

    high_water_bytes: int = 8 * MIB
    """Enough to keep a fast reader busy while a window of output is on its way."""

    limit_bytes: int = 64 * MIB
    """Eight times that. What a server and two kernels buffer ahead of an answer is about 10 MiB."""


class FlowControl(Generic[K]):
    """Counts unread output per holder, and who waits.

    `decided` is told to read or not to read, each time that this changes; a
    connection reads at first.
    """

    def __init__(self, limits: FlowLimits, decided: Callable[[bool], None]) -> None:
        self.limits = limits
        self._decided = decided
        self._unread: dict[K, int] = {}
        self._total = 0
        self._patient = 0
        self._impatient = 0
        self._is_reading = True

    # --- output -------------------------------------------------------------

    @property
    def holders(self) -> list[K]:
        """Return everybody who has unread output."""
        return list(self._unread)

    def unread_of(self, holder: K) -> int:
        """Return how many bytes of output one holder has not read."""
        return self._unread.get(holder, 0)

    def add(self, holder: K, size_bytes: int) -> None:
        """Count output that came in."""
        self._unread[holder] = self._unread.get(holder, 0) + size_bytes
        self._total += size_bytes
        self._decide()

    def remove(self, holder: K, size_bytes: int) -> None:
        """Count output that was read or dropped."""
        left = self._unread[holder] - size_bytes
        if left:
            self._unread[holder] = left
        else:
            del self._unread[holder]
        self._total -= size_bytes
        self._decide()

    @property
    def must_drop(self) -> bool:
        """Return whether output must be dropped: somebody who can't wait needs the connection read."""
        return self._total >= self.limits.limit_bytes and self._impatient > 0

    # --- who waits ----------------------------------------------------------

    @property
    def is_reading(self) -> bool:
        """Return whether the client reads from the connection, as decided last."""
        return self._is_reading

    def wait(self, *, patient: int = 0, impatient: int = 0) -> None:
        """Count more waits of each kind; a negative number counts waits that have ended."""
        self._patient += patient
        self._impatient += impatient
        assert self._patient >= 0
        assert self._impatient >= 0
        self._decide()

    @contextmanager
    def impatience(self) -> Iterator[None]:
        """Mark the block as a wait that must not be held up."""
        self.wait(impatient=1)
        try:
            yield
        finally:
            self.wait(impatient=-1)

    def _decide(self) -> None:
        # Once stopped, output has to fall to half the mark: no stop and go with every chunk.
        mark = self.limits.high_water_bytes if self._is_reading else self.limits.high_water_bytes // 2
        is_reading = (
            self._total < mark
            or self._impatient > 0
            or (self._patient > 0 and self._total < self.limits.limit_bytes)
        )
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            self._decided(is_reading)

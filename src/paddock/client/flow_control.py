"""Decides whether a connection should read on. Pure.

All processes share one connection, so the only way to slow a server down is to stop reading, which stops
everything. The client must not stop while a task waits for something that only reading can bring, or two
tasks could wait for each other for ever. The rule, by how much output is unread on the whole connection:

    below the high-water mark      read
    up to the limit                read while anybody waits for the server; an answer is
                                   never more than a few full buffers away
    at the limit                   read only for those who must not wait. Output is dropped
                                   to make room, first of processes that nobody reads;
                                   whoever reads it later is told

A task that waits for the process itself, to take a write or to exit, is patient while another task reads its
output: it waits for that reader, as it would with a pipe. This is how a slow reader slows its process down.
Every other wait is impatient.
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
    """Counts unread output per holder, and the tasks that wait.

    Calls `decided` with whether to read, each time the decision changes. A connection starts out reading.
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
        """Return all holders that have unread output."""
        return list(self._unread)

    def unread_of(self, holder: K) -> int:
        """Return how many bytes of output one holder has not read."""
        return self._unread.get(holder, 0)

    def add(self, holder: K, size_bytes: int) -> None:
        """Count output that arrived."""
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
        """Return whether output must be dropped because an impatient task needs the connection read."""
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
        # After a stop, unread output must fall to half the mark, so that reading does not stop and go with
        # every chunk.
        mark = self.limits.high_water_bytes if self._is_reading else self.limits.high_water_bytes // 2
        is_reading = (
            self._total < mark
            or self._impatient > 0
            or (self._patient > 0 and self._total < self.limits.limit_bytes)
        )
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            self._decided(is_reading)

"""Bounded, resumable output of one process.

An `OutputLog` numbers every event of a process from 1, keeps the head and the
newest tail of its output within a bound, and says what it dropped, so that a
reader which comes back can ask for "everything after 41" and learn whether
anything was lost. The streams of a process share the bound and the order: head and
tail are those of all its output together, and a stream that writes much displaces the
other from the tail. It does no I/O and never blocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from paddock.model.stream import Stream

CHUNK_LIMIT_BYTES = 64 * 1024
"""The default capacity of a Linux pipe (pipe(7)): what one read can return at most."""

BYTES_PER_RETAINED_CHUNK = 128
"""Approximate cost of a chunk besides its bytes. The log retains one chunk per this many bytes of the
bound, so that a process which writes byte by byte costs no more than twice the bound."""

DROP_MARKS = 1024
"""Positions remembered inside the gap, to report how much of it a reader has missed."""


class Chunk(Struct, frozen=True):
    """One numbered piece of output."""

    seq: int
    stream: Stream
    data: bytes


class Gap(Struct, frozen=True):
    """Dropped chunks: all with numbers from `from_seq` to `to_seq`, both included.

    `size_bytes` is never too small; for a reader inside a very long gap it may be a little too large.
    """

    from_seq: int
    to_seq: int
    size_bytes: int


class Reading(Struct, frozen=True):
    """What a reader gets: chunks in order, the number to go on from, and what is missing between them."""

    chunks: list[Chunk]
    next_seq: int
    gap: Gap | None


class Kept(Struct, frozen=True):
    """The retained output of one stream."""

    data: bytes
    omitted_bytes: int


def chunk_limit_for(limit_bytes: int) -> int:
    """Return how much to read at once so that the bound holds many chunks."""
    return max(1, min(CHUNK_LIMIT_BYTES, limit_bytes // 16))


class OutputLog:
    """Numbers events and retains output within `limit_bytes`.

    Half of the bound is for the head: it fills first and is never dropped. The
    rest is for the newest chunks. Chunks are kept or dropped whole, so callers
    append no more than `chunk_limit_for(limit_bytes)` at a time.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._limit_chunks = max(2, limit_bytes // BYTES_PER_RETAINED_CHUNK)
        self._next_seq = 1
        self._head: list[Chunk] = []
        self._head_bytes = 0
        self._is_head_full = False
        self._tail: deque[Chunk] = deque()
        self._tail_bytes = 0
        self._dropped_from = 0
        self._dropped_total = 0
        self._dropped_bytes: dict[Stream, int] = {}
        self._marks: list[tuple[int, int]] = []

    @property
    def next_seq(self) -> int:
        """Return the number that the next event will get."""
        return self._next_seq

    @property
    def retained_bytes(self) -> int:
        """Return how much output is held now."""
        return self._head_bytes + self._tail_bytes

    @property
    def total_bytes(self) -> int:
        """Return the total size of the output, retained or not."""
        return self.retained_bytes + self._dropped_total

    @property
    def dropped_bytes(self) -> int:
        """Return how much output is no longer held."""
        return self._dropped_total

    def take_seq(self) -> int:
        """Number an event that has no output, such as the exit."""
        seq = self._next_seq
        self._next_seq += 1
        return seq

    def append(self, stream: Stream, data: bytes) -> Chunk:
        """Number and retain a piece of output, dropping older ones to stay within the bound."""
        chunk = Chunk(self.take_seq(), stream, data)
        if not self._is_head_full and self._fits_head(chunk):
            self._head.append(chunk)
            self._head_bytes += len(data)
            return chunk
        # Once a chunk went to the tail no later one may enter the head, or the
        # order would be lost.
        self._is_head_full = True
        self._tail.append(chunk)
        self._tail_bytes += len(data)
        while len(self._tail) > 1 and self._is_over_bound():
            self._drop_oldest()
        return chunk

    def read(self, after_seq: int, limit_bytes: int | None) -> Reading:
        """Return retained chunks numbered above `after_seq`, in order.

        The first is returned even if it is larger than the limit; further ones
        only while the total stays within it.
        """
        chunks: list[Chunk] = []
        total = 0
        for chunk in self._after(after_seq):
            total += len(chunk.data)
            if chunks and limit_bytes is not None and total > limit_bytes:
                break
            chunks.append(chunk)
        next_seq = chunks[-1].seq + 1 if chunks and limit_bytes is not None else self._next_seq
        return Reading(chunks, next_seq, self._gap_within(after_seq, next_seq))

    def kept(self, stream: Stream) -> Kept:
        """Return what head and tail hold of one stream, joined, and how much was dropped between them."""
        data = b"".join(chunk.data for chunk in self._after(0) if chunk.stream is stream)
        return Kept(data, self._dropped_bytes.get(stream, 0))

    def has_after(self, after_seq: int) -> bool:
        """Return whether `read(after_seq)` would return a chunk."""
        newest = self._tail[-1] if self._tail else self._head[-1] if self._head else None
        return newest is not None and newest.seq > after_seq

    def _fits_head(self, chunk: Chunk) -> bool:
        return (
            self._head_bytes + len(chunk.data) <= self._limit_bytes // 2
            and len(self._head) < self._limit_chunks // 2
        )

    def _is_over_bound(self) -> bool:
        return (
            self.retained_bytes > self._limit_bytes or len(self._head) + len(self._tail) > self._limit_chunks
        )

    def _drop_oldest(self) -> None:
        dropped = self._tail.popleft()
        size = len(dropped.data)
        self._tail_bytes -= size
        self._dropped_from = self._dropped_from or dropped.seq
        self._dropped_bytes[dropped.stream] = self._dropped_bytes.get(dropped.stream, 0) + size
        self._dropped_total += size
        self._marks.append((dropped.seq, self._dropped_total))
        if len(self._marks) > 2 * DROP_MARKS:
            # The newest mark stays: it is the end of the gap.
            self._marks = self._marks[1::2]

    def _after(self, after_seq: int) -> Iterator[Chunk]:
        for chunk in self._head:
            if chunk.seq > after_seq:
                yield chunk
        for chunk in self._tail:
            if chunk.seq > after_seq:
                yield chunk

    def _gap_within(self, after_seq: int, next_seq: int) -> Gap | None:
        """Return what a reader that knows everything up to `after_seq` misses before `next_seq`."""
        if not self._marks or after_seq >= self._marks[-1][0] or next_seq <= self._dropped_from:
            return None
        # For a reader inside the gap, count the bytes from the mark at or before
        # it: exact, unless the marks were thinned.
        known = bisect_right(self._marks, (after_seq, self._dropped_total))
        seen = self._marks[known - 1][1] if known else 0
        return Gap(max(self._dropped_from, after_seq + 1), self._marks[-1][0], self._dropped_total - seen)

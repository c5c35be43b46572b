"""Finds the end of a log: its last whole record, and what a killed server left behind it. Reading only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from paddock.audit.chain import ORIGIN, Anchor, hash_of, link_of
from paddock.audit.verification import LINE_LIMIT_BYTES
from paddock.errors import AuditLogError

EXAMINED_BYTES = 2 * LINE_LIMIT_BYTES
"""How much of the end of a segment to examine: an unfinished line, and a whole one before it."""


class End(Struct, frozen=True):
    """How a log ends."""

    last: Anchor
    remainder: bytes
    """Bytes after the last record that are not a record."""
    owes_line_end: bool
    """Whether only the line end of the last record is missing."""
    has_head: bool
    """Whether the last segment has a record."""
    hashes: Mapping[int, str]
    """Hashes of the examined records, by their numbers."""


class _Tail(Struct, frozen=True):
    records: Sequence[Anchor]
    remainder: bytes


def find_end(segments: Sequence[Path], needed_seq: int) -> End:
    """Find the end of a log; `hashes` holds that of record `needed_seq`, if it is near and not 0.

    Raises AuditLogError or OSError.
    """
    last, remainder, has_head = ORIGIN, b"", False
    hashes: dict[int, str] = {}
    for segment in reversed(segments):
        tail = _tail_of(segment)
        if segment is segments[-1]:
            remainder, has_head = tail.remainder, bool(tail.records)
        if tail.records and not hashes:
            last = tail.records[-1]
        hashes |= {record.seq: record.sha256 for record in tail.records}
        # A server may have been killed before it updated the tip for the first records of a new segment.
        if hashes and (needed_seq == 0 or min(hashes) <= needed_seq):
            break
    link = link_of(remainder)
    if link is None or (link.seq, link.prev) != (last.seq + 1, last.sha256):
        return End(last, remainder, False, has_head, hashes)
    whole = Anchor(link.seq, hash_of(remainder + b"\n"))
    return End(whole, b"", True, True, hashes | {whole.seq: whole.sha256})


def _tail_of(segment: Path) -> _Tail:
    with segment.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        begin = max(0, size_bytes - EXAMINED_BYTES)
        file.seek(begin)
        data = file.read()
    # The first line may have begun before the examined part.
    at = data.find(b"\n") + 1 if begin else 0
    records: list[Anchor] = []
    end_of_last = at
    while end := data.find(b"\n", at) + 1:
        line = data[at:end]
        if (link := link_of(line)) is not None:
            records.append(Anchor(link.seq, hash_of(line)))
            end_of_last = end
        at = end
    if begin and not records:
        raise AuditLogError(
            str(segment), "its end holds no record; move the log away, and the server begins a new one"
        )
    return _Tail(records, data[end_of_last:])

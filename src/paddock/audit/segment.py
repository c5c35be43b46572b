"""The files of a log: numbered segments and the tip, in a directory of their own. Reading only.

Segments are never renamed, so their names sort as they were written and a reader of a log that
is being written loses nothing. A copy, and a directory that can only be read, will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock.audit.chain import Anchor
from paddock.audit.tip import TIP_BYTES, Tip, decode_tip
from paddock.audit.verification import LINE_LIMIT_BYTES, Place, Report, Verifier
from paddock.errors import AuditLogError

TIP_NAME = "tip"
_SEGMENT_NAME = re.compile(r"audit-([0-9]{8})\.jsonl")


@dataclass(frozen=True, slots=True)
class Line:
    """A line and where it stands; without a line end it is unfinished."""

    place: Place
    data: bytes


def segment_name(number: int) -> str:
    """The name of a segment; the first is number 1."""
    return f"audit-{number:08d}.jsonl"


def segment_number(segment: Path) -> int:
    """The number of a segment."""
    found = _SEGMENT_NAME.fullmatch(segment.name)
    assert found is not None
    return int(found[1])


def segments_in(directory: Path) -> list[Path]:
    """The segments, oldest first. Raises AuditLogError when the directory can't be read."""
    try:
        found = [path for path in directory.iterdir() if _SEGMENT_NAME.fullmatch(path.name)]
    except OSError as error:
        raise AuditLogError(str(directory), f"can't be read: {error.strerror}") from error
    return sorted(found)


def read_tip(directory: Path) -> Tip | None:
    """The tip; None if there is none or it is damaged."""
    try:
        with (directory / TIP_NAME).open("rb") as file:
            return decode_tip(file.read(TIP_BYTES + 1))
    except OSError:
        return None


def read_lines(segment: Path, *, offset: int = 0, number: int = 1) -> Iterator[Line]:
    """The lines of a segment from an offset on, where line `number` begins. Raises AuditLogError.

    What is longer than any record comes in pieces.
    """
    try:
        with segment.open("rb") as file:
            file.seek(offset)
            while data := file.readline(LINE_LIMIT_BYTES):
                yield Line(Place(segment.name, number), data)
                number += 1
    except OSError as error:
        raise AuditLogError(str(segment), f"can't be read: {error.strerror}") from error


def verify(directory: Path, expected: Sequence[Anchor] = (), *, is_pruned: bool = False) -> Report:
    """Read a whole log and judge it; it may be written at the same time. Raises AuditLogError."""
    # The tip first: what it names is in the segments by then.
    tip = read_tip(directory)
    segments = segments_in(directory)
    if not segments and tip is None:
        raise AuditLogError(str(directory), "there is no audit log")
    verifier = Verifier(tip, expected, is_pruned=is_pruned)
    for segment in segments:
        for line in read_lines(segment):
            verifier.feed(line.place, line.data)
    return verifier.finish()

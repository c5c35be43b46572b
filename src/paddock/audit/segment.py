"""The files of a log: numbered segments and the tip, in a directory of their own. Only reads.

Segments are never renamed, so their names sort in the order of writing, and a reader of a growing
log misses nothing. The directory may be a copy, or read-only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from paddock.audit.chain import Anchor
from paddock.audit.tip import TIP_BYTES, Tip, decode_tip
from paddock.audit.verification import LINE_LIMIT_BYTES, LinePosition, Report, Verifier
from paddock.errors import AuditLogError

TIP_NAME = "tip"
_SEGMENT_NAME = re.compile(r"audit-([0-9]{8})\.jsonl")


class Line(Struct, frozen=True):
    """A line and its position; without a line end it is unfinished."""

    position: LinePosition
    data: bytes


def segment_number(segment: Path) -> int:
    """Return the number of a segment."""
    found = _SEGMENT_NAME.fullmatch(segment.name)
    assert found is not None
    return int(found[1])


def segments_in(directory: Path) -> list[Path]:
    """Return the segments, oldest first. Raises AuditLogError when the directory can't be read."""
    try:
        found = [path for path in directory.iterdir() if _SEGMENT_NAME.fullmatch(path.name)]
    except OSError as error:
        raise AuditLogError(str(directory), f"can't be read: {error.strerror}") from error
    return sorted(found)


def read_tip(directory: Path) -> Tip | None:
    """Read the tip; None if there is none or it is damaged."""
    try:
        with (directory / TIP_NAME).open("rb") as file:
            return decode_tip(file.read(TIP_BYTES + 1))
    except OSError:
        return None


class Reader:
    """Reads a log from its beginning to its present end, and later on from there.

    A line that is longer than any record comes in pieces.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segment: Path | None = None
        self._offset = 0
        self._line = 1

    @classmethod
    def of(cls, directory: Path) -> Reader:
        """Return a reader of an existing log. Raises AuditLogError."""
        if not segments_in(directory) and not (directory / TIP_NAME).exists():
            raise AuditLogError(str(directory), "there is no audit log")
        return cls(directory)

    def lines(self) -> Iterator[Line]:
        """Yield the lines not read yet, without an unfinished one at the end. Raises AuditLogError."""
        for line in self.pieces():
            if line.data.endswith(b"\n"):
                yield line

    def pieces(self) -> Iterator[Line]:
        """Yield the same lines, and the unfinished one, which comes again in the next call."""
        for segment in segments_in(self._directory):
            if self._segment is not None and segment < self._segment:
                continue
            if segment != self._segment:
                self._segment, self._offset, self._line = segment, 0, 1
            yield from self._rest_of(segment)

    def _rest_of(self, segment: Path) -> Iterator[Line]:
        try:
            with segment.open("rb") as file:
                file.seek(self._offset)
                while data := file.readline(LINE_LIMIT_BYTES):
                    line = Line(LinePosition(segment_number(segment), self._line), data)
                    if data.endswith(b"\n") or len(data) == LINE_LIMIT_BYTES:
                        self._offset += len(data)
                        self._line += 1
                    yield line
        except OSError as error:
            raise AuditLogError(str(segment), f"can't be read: {error.strerror}") from error


def verify(directory: Path, expected: Sequence[Anchor] = (), *, is_pruned: bool = False) -> Report:
    """Read a whole log and judge it, even while a server writes to it. Raises AuditLogError."""
    reader = Reader.of(directory)
    # Read the tip first: the segments then hold every record up to it.
    verifier = Verifier(read_tip(directory), expected, is_pruned=is_pruned)
    for line in reader.pieces():
        verifier.feed(line.position, line.data)
    return verifier.finish()

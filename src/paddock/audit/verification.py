"""Checks that a log is as it was written. Pure: lines in, findings out.

The check finds lines that were changed, removed, inserted or moved, at the beginning and at the
end too: the tip, which the writer keeps beside the segments, names the last record. An attacker
who can write all of these files can also make a new chain and a new tip; only an anchor that was
kept elsewhere, or a tip in somebody else's log, shows that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from msgspec import Struct, field

from paddock.audit.chain import ORIGIN, Anchor, Link, Torn, hash_of, link_of
from paddock.audit.tip import Tip

LINE_LIMIT_BYTES = 4 * 1024 * 1024
"""No record is longer: its lists have 2 x 256 Ki characters, at most 6 bytes each in JSON, and no
more than ten other texts have 4 Ki each."""

SHOWN_PROBLEMS = 100
"""Problems to report one by one; the report only counts the rest."""


def segment_name(number: int) -> str:
    """Return the name of a segment's file; the first is number 1."""
    return f"audit-{number:08d}.jsonl"


class LinePosition(Struct, frozen=True):
    """The position of a line."""

    segment: int
    line: int

    def __str__(self) -> str:
        return f"{segment_name(self.segment)}:{self.line}"


class Finding(Struct, frozen=True):
    """Something about a line, or about the whole log."""

    position: LinePosition | None
    text: str

    def __str__(self) -> str:
        return self.text if self.position is None else f"{self.position}: {self.text}"


class Report(Struct):
    """The findings. `problems` are signs of tampering or damage, `notes` are not."""

    records: int = 0
    first_seq: int = 0
    last: Anchor = ORIGIN
    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    untold: int = 0
    """Number of further problems that the report does not list."""

    @property
    def is_sound(self) -> bool:
        """Return whether the log is as it was written, up to `last`."""
        return not self.problems


class _Debris(Struct):
    """Consecutive lines that are not records: an unfinished line, or damage."""

    positions: list[LinePosition] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    def add(self, position: LinePosition, line: bytes) -> None:
        self.positions.append(position)
        self.data += line

    def is_what_was_torn(self, torn: Torn | None) -> bool:
        region = self.data.removesuffix(b"\n")
        return torn is not None and torn == Torn(len(region), hashlib.sha256(region).hexdigest())

    def are_attempts_at(self, seq: int) -> bool:
        """Return whether every line is the beginning of one record, which did not fit again and again."""
        beginning = b'{"seq":%d,' % seq
        lines = self.data.removesuffix(b"\n").split(b"\n")
        return all(line.startswith(beginning) or beginning.startswith(line) for line in lines)


class Verifier:
    """Takes the lines of all segments in order, then `finish`. Read the tip before the lines.

    `expected` are anchors that were kept elsewhere. With `is_pruned` the first segments may
    be missing.
    """

    def __init__(self, tip: Tip | None, expected: Iterable[Anchor] = (), *, is_pruned: bool = False) -> None:
        self._tip = tip
        self._anchors = dict.fromkeys(expected, "the expected record")
        self._report = Report()
        if tip is not None:
            self._anchors.setdefault(tip.anchor, "the record at the tip")
        elif not self._anchors:
            self._problem(None, "there is no tip, or it can't be read: lines may be missing at the end")
        self._anchors.pop(ORIGIN, None)
        self._is_pruned = is_pruned
        self._last = ORIGIN
        self._last_position: LinePosition | None = None
        self._debris = _Debris()

    def feed(self, position: LinePosition, line: bytes) -> None:
        """Check the next line, with its line end if it has one."""
        link = link_of(line) if line.endswith(b"\n") else None
        if link is None:
            self._debris.add(position, line)
            if len(self._debris.data) > LINE_LIMIT_BYTES:
                self._condemn_debris()
            return
        skipped = self._settle_debris(position, link)
        self._check_link(position, link, skipped)
        self._check_segment(position, link)
        self._last = Anchor(link.seq, hash_of(line))
        self._last_position = position
        self._report.records += 1
        self._check_anchors(position)

    def finish(self) -> Report:
        """Return the findings. The last call."""
        report = self._report
        report.last = self._last
        for anchor, name in self._anchors.items():
            missing = "it and what came after it" if anchor.seq > self._last.seq else "it"
            self._problem(None, f"{name}, {anchor}, is not in the log: {missing} is missing")
        self._check_end()
        return report

    # --- a line -------------------------------------------------------------

    def _check_link(self, position: LinePosition, link: Link, skipped: int) -> None:
        last = self._last
        self._report.first_seq = self._report.first_seq or link.seq
        if self._last_position is None and not skipped:
            if (link.seq != 1 or link.prev != last.sha256) and not self._is_pruned:
                self._problem(position, f"the log begins with record {link.seq}: what came before is missing")
        elif link.seq > last.seq + 1 + skipped:
            self._problem(position, f"records {last.seq + 1} to {link.seq - 1} are missing before this line")
        elif link.seq <= last.seq:
            self._problem(position, f"record {link.seq} follows record {last.seq}: repeated, or moved")
        elif link.prev != last.sha256 and not skipped:
            self._problem(self._last_position, f"this line was changed, or the line after it, {position}")
        if link.expected is not None:
            ending = f"the log did not end as its tip said, with record {link.expected}, when it was opened"
            self._problem(position, ending)
        if link.tip_lost:
            self._problem(
                position, "there was no tip when the log was opened: lines before this may be missing"
            )

    def _check_segment(self, position: LinePosition, link: Link) -> None:
        is_first = self._last_position is None or self._last_position.segment != position.segment
        if is_first and link.segment != position.segment:
            self._problem(position, "this is not the line that its segment began with")
        elif not is_first and link.segment is not None:
            self._problem(position, f"this line was the first of segment {link.segment}, and was moved")

    def _check_anchors(self, position: LinePosition) -> None:
        for anchor, name in list(self._anchors.items()):
            if anchor.seq == self._last.seq:
                if anchor != self._last:
                    self._problem(position, f"this line is not {name}, {anchor}: it was changed")
                del self._anchors[anchor]

    # --- what is no record --------------------------------------------------

    def _settle_debris(self, position: LinePosition, link: Link) -> int:
        """Judge the debris before a record. Return how many records it may have been."""
        positions = self._debris.positions
        if self._debris.is_what_was_torn(link.torn):
            text = (
                f"{link.torn.size_bytes if link.torn else 0} bytes of a line that was not written to its end"
            )
            self._report.notes.append(Finding(positions[0], text))
            self._debris = _Debris()
            return 0
        if link.torn is not None:
            self._problem(
                position, "the unfinished line that stood before this one is missing or was changed"
            )
        self._condemn_debris()
        return len(positions)

    def _condemn_debris(self) -> None:
        for position in self._debris.positions:
            self._problem(position, "this line is not a record: it was changed or put in")
        self._debris = _Debris()

    # --- the end ------------------------------------------------------------

    def _check_end(self) -> None:
        is_closed = self._tip is not None and self._tip.is_closed
        positions = self._debris.positions
        if len(positions) == 1 and not self._debris.data.endswith(b"\n") and not is_closed:
            unfinished = "the last line is unfinished: its server was killed, or is writing now"
            self._report.notes.append(Finding(positions[0], unfinished))
        elif positions and self._debris.are_attempts_at(self._last.seq + 1) and not is_closed:
            unfinished = f"the last {len(positions)} lines are unfinished: there was no room for them"
            self._report.notes.append(Finding(positions[0], unfinished))
        else:
            self._condemn_debris()
        beyond = self._last.seq - self._tip.anchor.seq if self._tip is not None else 0
        if beyond > 0 and is_closed:
            self._problem(self._last_position, f"{beyond} records come after the log was closed")
        elif beyond > 0:
            text = f"{beyond} records come after the tip: their server was killed, or is writing now"
            self._report.notes.append(Finding(self._last_position, text))

    def _problem(self, position: LinePosition | None, text: str) -> None:
        if len(self._report.problems) < SHOWN_PROBLEMS:
            self._report.problems.append(Finding(position, text))
        else:
            self._report.untold += 1

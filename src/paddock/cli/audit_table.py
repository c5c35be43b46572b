"""Records of an audit log as lines for people."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING, TextIO

from paddock.cli.rendering import Colour, Palette
from paddock.model.cause import Cause
from paddock.printable import printable
from paddock.quotation import quoted_words

if TYPE_CHECKING:
    from paddock.audit.query import Record

HEADER = ("SEQ", "TIME", "KIND", "SESSION", "PROCESS", "WHAT")
WIDTHS = (7, 24, 12, 8, 14)
"""The widths of all columns but the last: a log is printed as it is read, and may be long."""

SHOWN_ELSEWHERE = frozenset(
    {"seq", "time", "kind", "session", "process", "connection", "request", "segment", "prev"}
)


class AuditTable:
    """Prints records to a stream, the header first."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._palette = Palette.of(stream)
        self._width = shutil.get_terminal_size().columns if stream.isatty() else None
        self._has_header = False

    def print(self, record: Record) -> None:
        """Print a record on one line."""
        if not self._has_header:
            self._has_header = True
            self._stream.write(f"{self._line(HEADER)}\n")
        time = str(record["time"])
        cells = (
            str(record["seq"]),
            f"{time[:23]}Z",
            str(record["kind"]),
            str(record.get("session", "-")),
            str(record.get("process", "-")),
            what(record),
        )
        line = self._line([printable(cell) for cell in cells])
        self._stream.write(f"{self._palette.paint(line, colour_of(record))}\n")

    def _line(self, cells: tuple[str, ...] | list[str]) -> str:
        fixed = [_fitted(cell, width) for cell, width in zip(cells, WIDTHS, strict=False)]
        line = "  ".join([*fixed, cells[-1]])
        return line if self._width is None or len(line) <= self._width else f"{line[: self._width - 1]}…"


def _fitted(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else f"{cell[: width - 1]}…"


def what(record: Record) -> str:
    """Describe a record in a few words."""
    match record:
        case {"kind": "start", "argv": list() as argv}:
            return _command(argv)
        case {"kind": "exit", "exit_code": code}:
            number = record.get("signal")
            end = f"killed by {_signal_name(number)}" if isinstance(number, int) else f"status {code}"
            cause = record.get("cause")
            return end if cause in (None, Cause.EXIT, Cause.SIGNAL) else f"{end} ({cause})"
        case {"kind": "signal", "signal": name}:
            return f"{name} from connection {record.get('connection', '-')}"
        case {"kind": "session", "client": client, "peer": peer}:
            verb = "resumed by" if record.get("resumed") else "opened by"
            return f"{verb} {client or 'a client'} at {peer}" + (
                " (operator)" if record.get("operator") else ""
            )
        case {"kind": "decision", "decision": decision, "argv": list() as argv}:
            return f"{decision}: {_command(argv)}"
        case {"kind": "approval", "approved": bool() as is_approved, "argv": list() as argv}:
            return f"{'approved' if is_approved else 'refused'} by {record.get('by', '-')}: {_command(argv)}"
        case {"kind": "network", "decision": decision, "host": host}:
            return f"{decision}: {record.get('protocol', '-')} {host}:{record.get('port', '-')}"
        case {"kind": "denial", "operation": operation}:
            doubt = "" if record.get("certain", True) else "perhaps "
            subject = f" {record['subject']}" if "subject" in record else ""
            return f"{doubt}{operation}{subject}" + (f": {record['reason']}" if "reason" in record else "")
        case {"reason": str() as reason}:
            return reason
    rest = {name: value for name, value in record.items() if name not in SHOWN_ELSEWHERE}
    return " ".join(
        f"{name}={json.dumps(value) if isinstance(value, dict | list) else value}"
        for name, value in rest.items()
    )


def colour_of(record: Record) -> Colour:
    """Return red for what went wrong or was not allowed."""
    is_bad = (
        record["kind"] in ("start-failed", "lost", "denial", "resumed")
        or record.get("exit_code") not in (None, 0)
        or record.get("decision") == "forbidden"
        or record.get("approved") is False
    )
    return Colour.RED if is_bad else Colour.PLAIN


def _command(argv: list[object]) -> str:
    return quoted_words(list(map(str, argv)))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

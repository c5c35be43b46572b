"""`paddock audit`: look at an audit log, and verify that it is unchanged."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli import exit_status
from paddock.cli.message import tell
from paddock.cli.options import Verbs, add_verb, count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paddock.audit.chain import Anchor
    from paddock.audit.query import Query, Record
    from paddock.audit.segment import Reader
    from paddock.audit.verification import Finding, Report

DESCRIPTION = """\
Read and verify the audit log that a server writes when its setting `audit_log` names a
directory. A copy of the directory will do, and a server may be writing to it meanwhile.
"""

EXAMPLES = """\
examples:
  paddock audit show /var/log/paddock
  paddock audit verify /var/log/paddock
  paddock audit export --format csv /var/log/paddock > audit.csv
"""

SHOW_DESCRIPTION = """\
Print the records of an audit log, oldest first. Times are UTC.
"""

SHOW_EXAMPLES = """\
examples:
  paddock audit show --tail 20 --follow /var/log/paddock
  paddock audit show --kind start --since 2h /var/log/paddock
  paddock audit show --session 0f3a9c2e --json /var/log/paddock
"""

VERIFY_DESCRIPTION = """\
Find out whether anybody has changed, removed, inserted or moved lines of an audit log.
This prints the last record with its hash. Keep that elsewhere and --expect it later, to
detect even somebody who can write the whole log.
"""

VERIFY_EXAMPLES = """\
examples:
  paddock audit verify /var/log/paddock
  paddock audit verify --expect 1204:9c1f…e2 /var/log/paddock
  paddock audit verify --pruned /var/log/paddock    older segments were taken away

exit status:
  0 if it is, 1 if it is not or can't be read. A last line that a killed server could not
  finish is told, and is no fault.
"""

EXPORT_DESCRIPTION = """\
Print the records of all segments as one file: JSON lines as the server wrote them, or CSV.
This verifies the log on the way, and the exit status is 1 if anything is wrong with it.
"""

EXPORT_EXAMPLES = """\
examples:
  paddock audit export /var/log/paddock > audit.jsonl
  paddock audit export --format csv --kind start --since 7d /var/log/paddock > starts.csv
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "audit",
        # Never called: one of the commands below is required.
        run_show,
        help="read an audit log and verify it",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    views = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, help="what to do with the log"
    )
    _add_show(views)
    _add_verify(views)
    _add_export(views)


def _add_show(views: Verbs) -> None:
    parser = add_verb(
        views,
        "show",
        run_show,
        help="print records",
        description=SHOW_DESCRIPTION,
        examples=SHOW_EXAMPLES,
    )
    _add_query(parser)
    parser.add_argument("-n", "--tail", metavar="N", type=count, help="start with the last N records")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="print new records as the server writes them"
    )
    parser.add_argument("--json", action="store_true", help="print the lines as they are in the log")
    _add_directory(parser)


def _add_verify(views: Verbs) -> None:
    parser = add_verb(
        views,
        "verify",
        run_verify,
        help="find changed, removed and moved lines",
        description=VERIFY_DESCRIPTION,
        examples=VERIFY_EXAMPLES,
    )
    parser.add_argument(
        "--expect",
        metavar="SEQ:HASH",
        type=_anchor,
        action="append",
        default=[],
        help="a record that the log must have, as this printed it before; may be repeated",
    )
    parser.add_argument("--pruned", action="store_true", help="the oldest segments may be missing")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    _add_directory(parser)


def _add_export(views: Verbs) -> None:
    parser = add_verb(
        views,
        "export",
        run_export,
        help="print all segments as one file",
        description=EXPORT_DESCRIPTION,
        examples=EXPORT_EXAMPLES,
    )
    parser.add_argument(
        "--format", choices=("jsonl", "csv"), default="jsonl", help="what to print (default jsonl)"
    )
    parser.add_argument("--pruned", action="store_true", help="the oldest segments may be missing")
    _add_query(parser)
    _add_directory(parser)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="directory of the log")


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        type=_kind,
        default=[],
        help="only records of this kind, such as start, exit or denial; may be repeated",
    )
    parser.add_argument(
        "--session", metavar="SESSION", default="", help="only sessions whose id begins like this"
    )
    parser.add_argument(
        "--process", metavar="ID", default="", help="only processes whose id begins like this"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=_since,
        help="only records since then: 30m, 2h or 7d ago, or a time such as 2026-03-04T05:06 (UTC)",
    )


def _kind(text: str) -> str:
    from paddock.audit.event import KINDS

    if text not in KINDS:
        raise argparse.ArgumentTypeError(f"there is no kind {text!r}; there are {', '.join(KINDS)}")
    return text


def _since(text: str) -> str:
    import time
    from datetime import UTC, datetime

    from paddock.audit.chain import time_text

    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = text[:-1], text[-1:]
    if unit in units and number.isascii() and number.isdigit() and len(number) < 10:
        return time_text(max(0, time.time_ns() - int(number) * units[unit] * 1_000_000_000))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither an age such as 2h nor a time") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return time_text(int(moment.timestamp()) * 1_000_000_000)


def _anchor(text: str) -> Anchor:
    from paddock.audit.chain import parse_anchor

    anchor = parse_anchor(text)
    if anchor is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a record's number, a colon and its hash")
    return anchor


# --- show -------------------------------------------------------------------


def run_show(arguments: argparse.Namespace) -> int:
    """Print records, until there are no more or the user has enough."""
    from collections import deque
    from contextlib import ExitStack

    from paddock.audit.segment import Reader
    from paddock.audit.watch import Watch
    from paddock.cli.audit_table import AuditTable

    query = _query(arguments)
    reader = Reader.of(arguments.directory)
    table = AuditTable(sys.stdout)
    with ExitStack() as stack:
        watch = stack.enter_context(Watch(arguments.directory)) if arguments.follow else None
        found = _wanted(reader, query)
        if arguments.tail is not None:
            found = iter(deque(found, maxlen=arguments.tail))
        while True:
            for line, record in found:
                if arguments.json:
                    sys.stdout.write(line)
                else:
                    table.print(record)
            sys.stdout.flush()
            if watch is None:
                return 0
            watch.wait()
            found = _wanted(reader, query)


def _wanted(reader: Reader, query: Query) -> Iterator[tuple[str, Record]]:
    """Yield the lines that match the query. Report and leave out lines that are not records."""
    from paddock.audit.query import record_of

    for line in reader.lines():
        record = record_of(line.data)
        if record is None:
            tell(f"{line.position} is not a record; see paddock audit verify", "audit")
        elif query.takes(record):
            yield line.data.decode("utf-8", "replace"), record


def _query(arguments: argparse.Namespace) -> Query:
    from paddock.audit.query import Query

    return Query(frozenset(arguments.kind), arguments.session, arguments.process, arguments.since or "")


# --- verify -----------------------------------------------------------------


def run_verify(arguments: argparse.Namespace) -> int:
    """Print what was found."""
    from paddock.audit.segment import verify

    report = verify(arguments.directory, arguments.expect, is_pruned=arguments.pruned)
    if arguments.json:
        print(_json(report))
    else:
        _print_report(report)
    return 0 if report.is_sound else exit_status.FAILURE


def _print_report(report: Report) -> None:
    from paddock.cli.rendering import Colour, Palette

    palette = Palette.of(sys.stdout)
    for problem in report.problems:
        print(palette.paint(str(problem), Colour.RED))
    if report.untold:
        print(f"… and {report.untold} more")
    for note in report.notes:
        print(f"note: {note}")
    verdict = "verified" if report.is_sound else "NOT what was written"
    records = f"{report.records} records" if report.records != 1 else "1 record"
    print(f"{verdict}: {records}, {report.first_seq} to {report.last.seq}")
    print(f"last record: {report.last}")


def _json(report: Report) -> str:
    import json

    from paddock.audit.verification import segment_name

    def told(finding: Finding) -> dict[str, object]:
        position = finding.position
        return {
            "segment": segment_name(position.segment) if position is not None else None,
            "line": position.line if position is not None else None,
            "text": finding.text,
        }

    return json.dumps(
        {
            "sound": report.is_sound,
            "records": report.records,
            "first": report.first_seq,
            "last": str(report.last),
            "problems": [told(problem) for problem in report.problems],
            "untold": report.untold,
            "notes": [told(note) for note in report.notes],
        },
        indent=2,
    )


# --- export -----------------------------------------------------------------


def run_export(arguments: argparse.Namespace) -> int:
    """Print the records, and verify what is printed."""
    import csv

    from paddock.audit.export import COLUMNS, row_of
    from paddock.audit.query import record_of
    from paddock.audit.segment import Reader, read_tip
    from paddock.audit.verification import Verifier

    query = _query(arguments)
    reader = Reader.of(arguments.directory)
    verifier = Verifier(read_tip(arguments.directory), is_pruned=arguments.pruned)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    is_csv = arguments.format == "csv"
    if is_csv:
        rows.writerow(COLUMNS)
    for line in reader.pieces():
        verifier.feed(line.position, line.data)
        record = record_of(line.data) if line.data.endswith(b"\n") else None
        if record is None or not query.takes(record):
            continue
        if is_csv:
            rows.writerow(row_of(record))
        else:
            sys.stdout.write(line.data.decode("utf-8", "replace"))
    report = verifier.finish()
    for problem in report.problems:
        tell(str(problem), "audit")
    return 0 if report.is_sound else exit_status.FAILURE

"""`paddock ps`: the processes of all servers of this user."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from typing import TYPE_CHECKING

from paddock.cli.exit_status import FAILURE
from paddock.cli.message import tell
from paddock.cli.options import Verbs, add_verb
from paddock.cli.server_choice import add_operated_server_options, operated_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.cli.rendering import Palette
    from paddock.cli.selection import Candidate
    from paddock.cli.survey import Survey
    from paddock.model.control_address import ControlAddress
    from paddock.protocol.control import ProcessStatus

DESCRIPTION = """\
List the running processes on all your servers, with the client that started each one
and whether that client is still connected. Pass an id from the first column to
`paddock attach`, `logs` or `kill`.
"""

EXAMPLES = """\
examples:
  paddock ps                   what runs
  paddock ps --all             and what has ended, as long as its server remembers it
  paddock ps --json            servers, sessions and processes, for programs
  paddock ps --server 4711     on one server
  paddock ps --url wss://build.example:4100 --token-file ~/.paddock-token

columns:
  STATE    running, exited with this status, or lost: its end will not be known; the group lives
           of a process that has left others of its process group behind
  SESSION  attached: its client is connected; detached: the client is gone, and the process
           ends when it does not come back; kept: the process stays without its client
  OUTPUT   how much it has written

A narrow terminal shows fewer columns, so that there is room for the command.
"""

CLIENT_NAME = "paddock-ps"
HEADER = ("ID", "PID", "STATE", "SESSION", "AGE", "OUTPUT", "CLIENT", "SERVER", "COMMAND")
DISPENSABLE = ("OUTPUT", "CLIENT", "SERVER", "SESSION", "PID", "AGE", "STATE")
"""The columns that a narrow terminal goes without, in this order."""
COMMAND_CHARS = 24
"""Room that the command gets first, if it needs it."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(verbs, "ps", run, help="list processes", description=DESCRIPTION, examples=EXAMPLES)
    parser.add_argument("-a", "--all", action="store_true", help="list processes that have ended, too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-q", "--quiet", action="store_true", help="print only the ids, one per line")
    form.add_argument("--json", action="store_true", help="print everything as JSON")
    add_operated_server_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the list. Fails if there are servers and none of them answers."""
    import asyncio

    from paddock.cli.survey import NO_SERVER, survey

    found = asyncio.run(survey(operated_server(arguments), CLIENT_NAME))
    found.warn()
    if arguments.json:
        print(_json(found, arguments.all))
        return FAILURE if found.problems and not found.answers else 0
    if not found.answers:
        if found.problems:
            return FAILURE
        if not arguments.quiet:
            tell(NO_SERVER, "ps")
        return 0
    _print_list(found, arguments)
    return 0


def _print_list(found: Survey, arguments: argparse.Namespace) -> None:
    from paddock.cli.rendering import Palette, table, without_columns
    from paddock.cli.selection import short_names

    known = found.candidates
    # Names are chosen among all, so that each is understood whatever is shown.
    named = [
        (name, candidate)
        for name, candidate in zip(short_names(known), known, strict=True)
        if arguments.all or _is_live(candidate.process)
    ]
    if arguments.quiet:
        for name, _ in named:
            print(name)
        return
    now_s = time.time()
    rows = [_row(name, candidate, now_s) for name, candidate in named]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    header, *lines = table(*without_columns(HEADER, rows, DISPENSABLE, COMMAND_CHARS, width), width)
    palette = Palette.of(sys.stdout)
    print(header)
    for line, (_, candidate) in zip(lines, named, strict=True):
        print(_painted(line, candidate, palette))


def _row(name: str, candidate: Candidate, now_s: float) -> Sequence[str]:
    from paddock.cli.rendering import age_text, size_text
    from paddock.printable import printable
    from paddock.quotation import quoted_words

    process, session = candidate.process, candidate.session
    return (
        name,
        str(process.pid),
        _state(candidate),
        "attached" if session.attached else "kept" if process.keep_alive else "detached",
        age_text(now_s - process.started_at_ms / 1000),
        size_text(process.output_bytes),
        printable(session.client_name) or "-",
        str(candidate.server.pid),
        quoted_words(process.argv),
    )


def _state(candidate: Candidate) -> str:
    process = candidate.process
    if process.running:
        return "running"
    if process.exit_code is None:
        return "lost"
    return f"exited {process.exit_code}" + (", group lives" if process.survivors else "")


def _is_live(process: ProcessStatus) -> bool:
    return process.running or process.survivors


def _painted(line: str, candidate: Candidate, palette: Palette) -> str:
    from paddock.cli.rendering import Colour

    process = candidate.process
    if _is_live(process):
        return line
    is_bad = process.exit_code != 0
    return palette.paint(line, Colour.RED if is_bad else Colour.DIM)


def _socket(control: ControlAddress) -> str | None:
    from pathlib import Path

    return str(control) if isinstance(control, Path) else None


def _json(found: Survey, with_ended: bool) -> str:
    import json

    from msgspec import to_builtins

    servers = []
    for answer in found.answers:
        status = to_builtins(answer.status)
        for session, shown in zip(answer.status.sessions, status["sessions"], strict=True):
            shown["processes"] = [
                to_builtins(process) for process in session.processes if with_ended or _is_live(process)
            ]
        servers.append(
            {**status["server"], "controlSocket": _socket(answer.control), "sessions": status["sessions"]}
        )
    return json.dumps({"servers": servers}, indent=2)

"""`paddock questions`: list the questions that this user's servers wait for an answer to."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING

from paddock.cli.options import Verbs, add_server_option, add_verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.cli.question_selection import Candidate

DESCRIPTION = """\
List the open questions of all your servers: what each asks, about which process, and how long
it waits for an answer. The client of the session may answer, or you may with `paddock answer`.
The first answer counts.
"""

EXAMPLES = """\
examples:
  paddock questions            what waits for an answer
  paddock questions --json     with all parameters, for programs

columns:
  ASKED   client: a client that is connected now has been asked; nobody: none is connected, or it
          does not answer such questions
  LEFT    when the question times out
"""

CLIENT_NAME = "paddock-questions"
HEADER = ("ID", "METHOD", "PROCESS", "CLIENT", "ASKED", "AGE", "LEFT", "SERVER", "QUESTION")


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        "questions",
        run,
        help="list questions that wait for an answer",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_server_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    import asyncio

    from paddock.cli.question_survey import open_questions

    found = asyncio.run(open_questions(arguments.server, CLIENT_NAME))
    if arguments.json:
        print(_json(found))
    else:
        _print_list(found)
    return 0


def _print_list(found: Sequence[Candidate]) -> None:
    from paddock.cli.question_selection import short_names
    from paddock.cli.rendering import table

    rows = [_row(name, candidate) for name, candidate in zip(short_names(found), found, strict=True)]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(HEADER, rows, width):
        print(line)


def _row(name: str, candidate: Candidate) -> Sequence[str]:
    from paddock.cli.rendering import age_text
    from paddock.printable import printable

    question = candidate.question
    left_ms = question.time_left_ms
    return (
        name,
        question.method,
        printable(question.process_id or "-"),
        printable(question.client_name),
        "client" if question.sent else "nobody",
        age_text(question.waited_ms / 1000),
        "-" if left_ms is None else age_text(left_ms / 1000),
        str(candidate.server_pid),
        printable(candidate.summary),
    )


def _json(found: Sequence[Candidate]) -> str:
    import json

    from msgspec import to_builtins

    questions = [
        {
            **to_builtins(candidate.question),
            "serverPid": candidate.server_pid,
            "controlSocket": str(candidate.control),
        }
        for candidate in found
    ]
    return json.dumps({"questions": questions}, indent=2)

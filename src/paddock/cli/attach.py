"""`paddock attach`: a terminal on a process that runs already.

Declares the verb and turns failures into exit statuses; `attachment` moves the bytes.
"""

from __future__ import annotations

import argparse
import os

from paddock.cli.message import bracketed, error_text, failed, os_error_text, show
from paddock.cli.options import ID_HELP, Verbs, add_verb
from paddock.cli.server_choice import add_operated_server_options, operated_server
from paddock.errors import PaddockError

DESCRIPTION = """\
Watch a running process and type to it, whoever started it. You see its newest output,
then whatever it writes. A process with a terminal gets every key but the detach key,
and the size of this window for as long as you stay. A process without one gets what
you enter line by line; Ctrl-D ends its input, and Ctrl-C or Ctrl-\\ leaves. The
process keeps running when you leave.
"""

EXAMPLES = """\
examples:
  paddock attach 3f2a                          the process whose id begins like this
  paddock attach --read-only 3f2a              only look; Ctrl-C leaves as well
  paddock attach --detach-keys ctrl-p,ctrl-q 3f2a

exit status:
  the process's own if it ends while you are attached, 0 after the detach key, 128+n if
  signal n ended paddock itself, and 125 if it failed.
"""

VERB = "attach"
CLIENT_NAME = "paddock-attach"
DETACH_KEYS = "ctrl-\\"
"""One key, so that no other one waits for it to be told apart, and one that few programs want."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        VERB,
        run,
        help="watch a running process and type to it",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--read-only", action="store_true", help="only watch: send no input and no window size"
    )
    parser.add_argument(
        "--detach-keys",
        metavar="KEYS",
        type=_keys,
        default=DETACH_KEYS,
        help=r"the keys that leave a terminal, such as ctrl-p,ctrl-q (default: ctrl-\)",
    )
    add_operated_server_options(parser)
    parser.add_argument("id", metavar="ID", help=ID_HELP)


def _keys(text: str) -> bytes:
    from paddock.cli.detach_keys import parse_keys

    try:
        return parse_keys(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(arguments: argparse.Namespace) -> int:
    """Attach to the process, and return the exit status."""
    import asyncio

    try:
        return asyncio.run(_attach(arguments))
    except PaddockError as error:
        return failed(error_text(error), VERB)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Too few descriptors, for example.
        return failed(os_error_text(error), VERB)


async def _attach(arguments: argparse.Namespace) -> int:
    from paddock.cli.attachment import Attachment
    from paddock.cli.survey import reached

    async with reached(arguments.id, operated_server(arguments), CLIENT_NAME) as (candidate, process):
        attachment = Attachment(
            process,
            candidate.process,
            detach_keys=arguments.detach_keys,
            is_read_only=arguments.read_only,
        )
        outcome = await attachment.run()
    if os.isatty(2) and (attachment.is_detached or outcome.problem is not None):
        # What the process wrote last, such as a prompt, need not have ended its line.
        show("\n")
    if attachment.is_detached and os.isatty(2):
        show(f"{bracketed(f'detached from {arguments.id}')}\n")
    return outcome.status if outcome.problem is None else failed(outcome.problem, VERB, outcome.status)

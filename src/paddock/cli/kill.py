"""`paddock kill`: end a process, or send it a signal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paddock.cli import exit_status
from paddock.cli.message import error_text, tell
from paddock.cli.options import ID_HELP, Verbs, add_verb, seconds
from paddock.cli.server_choice import add_operated_server_options, operated_server
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.cli.selection import Candidate
    from paddock.client.operator import OperatedProcess

DESCRIPTION = """\
End processes and everything in their groups, whoever started them: send SIGTERM, wait
for a grace period, send SIGKILL to whatever is left, and return when all have ended.
With --signal, send only that signal and do not wait.
"""

EXAMPLES = """\
examples:
  paddock kill 3f2a                  SIGTERM, and SIGKILL after 2 seconds
  paddock kill --grace 30 3f2a       with more time to end
  paddock kill --signal HUP 3f2a     only this signal
  paddock kill $(paddock ps --quiet) everything that runs on this user's servers

exit status:
  0 if every process got it, 1 if one was not found, or had ended already with all of its
  group.
"""

CLIENT_NAME = "paddock-kill"
DEFAULT_GRACE_S = 2.0
AFTER_KILL_S = 5.0
"""How long the server may take to report the end of a killed process, unless it hangs in the kernel."""
LOOK_S = 0.02
"""The time between two looks at what is left of a group, because its end is no event."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(verbs, "kill", run, help="end a process", description=DESCRIPTION, examples=EXAMPLES)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-s", "--signal", metavar="SIGNAL", type=_signal, help="send only this signal: TERM, SIGHUP, USR1, …"
    )
    how.add_argument(
        "--grace",
        metavar="SECONDS",
        type=seconds,
        default=DEFAULT_GRACE_S,
        help="time between SIGTERM and SIGKILL (default 2)",
    )
    add_operated_server_options(parser)
    parser.add_argument("ids", metavar="ID", nargs="+", help=ID_HELP)


def _signal(text: str) -> str:
    from signal import Signals

    from paddock.model.signal_name import parse_signal
    from paddock.suggestion import suggestion

    try:
        return (Signals(int(text)) if text.isdecimal() else parse_signal(text.upper())).name
    except ValueError:
        names = [signal.name for signal in Signals]
        known = names if text.upper().startswith("SIG") else [name.removeprefix("SIG") for name in names]
        meant = suggestion(text, known) or "expected a name such as TERM, SIGKILL or USR1"
        raise argparse.ArgumentTypeError(f"{text!r} is not a signal; {meant}") from None


def run(arguments: argparse.Namespace) -> int:
    """End them all, one after the other; a failure does not stop the rest."""
    import asyncio

    outcomes = [asyncio.run(_kill_one(name, arguments)) for name in arguments.ids]
    return 0 if all(outcomes) else exit_status.FAILURE


async def _kill_one(name: str, arguments: argparse.Namespace) -> bool:
    from paddock.cli.survey import reached

    try:
        async with reached(name, operated_server(arguments), CLIENT_NAME) as (candidate, process):
            problem = await _kill(candidate, process, arguments)
    except PaddockError as error:
        problem = error_text(error)
    if problem is not None:
        tell(problem, "kill")
    return problem is None


async def _kill(candidate: Candidate, process: OperatedProcess, arguments: argparse.Namespace) -> str | None:
    """Send the signal, and return what went wrong."""
    name = f"process {candidate.process.process_id!r}"
    if not (candidate.process.running or candidate.process.survivors):
        return f"{name} has ended already"
    if arguments.signal is not None:
        await process.signal(arguments.signal)
        return None
    patience_s = arguments.grace + AFTER_KILL_S
    if await process.terminate(arguments.grace):
        result = await process.wait(patience_s)
        if not result.exited:
            return f"{name} was killed and still exists; it hangs in the kernel"
    if not await _group_ends(process, patience_s):
        return f"{name} has ended, and others of its group were killed and still exist; see `paddock ps`"
    return None


async def _group_ends(process: OperatedProcess, timeout_s: float) -> bool:
    """Wait until the group of an ended process is empty; return False when the time is over."""
    import asyncio

    timer = asyncio.timeout(timeout_s)
    try:
        async with timer:
            while True:
                if not await process.has_survivors():
                    return True
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        if not timer.expired():
            raise
        return False

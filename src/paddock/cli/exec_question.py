"""Words the question about a program that a confined command wants to execute, for people to read. Pure.

Everything but the program was chosen by the command: it is shown in one form everywhere, printable, with
the program itself first.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence

from paddock.cli.message import beginning
from paddock.printable import printable
from paddock.protocol.question import ExecApprovalParams


def command_text(program: str, argv: Sequence[str]) -> str:
    """Return a command with the program in the place of the name that its caller chose."""
    return printable(shlex.join([program, *argv[1:]]))


def reason_text(reason: str, program: str, argv: Sequence[str]) -> str:
    """Return a reason for those who have read the command already, with which most begin."""
    return printable(reason.removeprefix(f"`{shlex.join([program, *argv[1:]])}` "))


def exec_summary(program: str, argv: Sequence[str], cwd: str) -> str:
    """Return what is to be executed, and where, in one line."""
    command = shlex.join([program, *argv[1:]])
    called = f" (called {shlex.quote(argv[0])})" if argv and argv[0] != program else ""
    return printable(f"{command}{called} in {cwd}")


def question_text(params: ExecApprovalParams) -> str:
    """Return all that a user has to know to answer."""
    lines = [
        f"{beginning('run')}{command_text(params.program, params.argv)}",
        f"  in {printable(params.cwd)}",
        f"  {reason_text(params.reason, params.program, params.argv)}",
    ]
    if params.argv and params.argv[0] not in (params.program, posixpath.basename(params.program)):
        lines.insert(1, f"  called {printable(params.argv[0])}")
    # The reason names one of them.
    for match in params.matches if len(params.matches) > 1 else ():
        why = "" if match.justification is None else f": {match.justification}"
        lines.append(f"  {match.action} by {printable(f'{match.path}:{match.line}{why}')}")
    return "\n".join(lines) + "\n"

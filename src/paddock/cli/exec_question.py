"""Words the question about a program that a confined command wants to execute, for people to read. Pure.

Everything but the program was chosen by the command: it is shown in one form everywhere, printable, with
the program itself first.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from paddock.agent.program_question import is_exact
from paddock.cli.message import beginning
from paddock.printable import printable
from paddock.protocol.question import ExecApprovalParams
from paddock.quotation import in_ascii, is_long, quoted, quoted_words


def command_text(program: str, argv: Sequence[str]) -> str:
    """Return a command with the program in the place of the name that its caller chose."""
    return quoted_words([program, *argv[1:]])


def reason_text(reason: str, program: str, argv: Sequence[str]) -> str:
    """Return a reason for those who have read the command already, with which most begin."""
    return printable(reason.removeprefix(f"`{command_text(program, argv)}` "))


def exec_summary(program: str, argv: Sequence[str], cwd: str) -> str:
    """Return what is to be executed, and where, in one line."""
    called = f" (called {quoted(argv[0])})" if argv and argv[0] != program else ""
    return f"{command_text(program, argv)}{called} in {quoted(cwd)}"


def question_text(params: ExecApprovalParams) -> str:
    """Return all that a user has to know to answer."""
    lines = [f"{beginning('run')}{command_text(params.program, params.argv)}"]
    words = [params.program, *params.argv[1:]]
    if params.argv and params.argv[0] not in (params.program, posixpath.basename(params.program)):
        lines.append(f"  called {quoted(params.argv[0])}")
        words.append(params.argv[0])
    lines.append(f"  in {quoted(params.cwd)}")
    if (written_out := in_ascii([*words, params.cwd])) is not None:
        lines.append(f"  all that in ASCII: {written_out}")
    if not is_exact(params):
        lines.append("  beware: some of it can't be shown; \ufffd stands for other characters")
    lines.append(f"  {reason_text(params.reason, params.program, params.argv)}")
    # The reason names one of them.
    for match in params.matches if len(params.matches) > 1 else ():
        why = "" if match.justification is None else f": {match.justification}"
        lines.append(f"  {match.action} by {printable(f'{match.path}:{match.line}{why}')}")
    if is_long(lines):
        size = sum(map(len, lines))
        lines.append(f"  beware: the question has {size} characters; its beginning may be out of sight")
    return "\n".join(lines) + "\n"

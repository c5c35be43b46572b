"""`paddock run`: run a command on a server as if it ran here.

Declares the verb and turns failures into exit statuses; `relay` moves the bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from errno import EACCES, ENOENT, ENOEXEC, EPERM
from typing import TYPE_CHECKING

from paddock.errors import OperationFailed, PaddockError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from paddock.client.box import Box
    from paddock.client.process import Process
    from paddock.model.terminal import TerminalSize

    Verbs = _SubParsersAction[argparse.ArgumentParser]

DESCRIPTION = """\
Run a command on a server as if it ran here: its output comes out unchanged, its
input is this input, signals reach it, and its exit status is the status of
paddock. In a terminal it gets a terminal. Without --url a private server is
started, which ends with the command.
"""

EXAMPLES = """\
examples:
  paddock run -- make test                          on this host
  paddock run --url ws://127.0.0.1:4100 -- uname    on a server
  tar c . | paddock run --url unix:///run/paddock.sock -- tar x -C /tmp/copy
  paddock run --env LANG=C --cwd /tmp -- bash       interactively

exit status:
  the command's own, 128+n if signal n ended it, 127 if it was not found, 126 if it
  could not be executed, and 125 if paddock itself failed.
"""

STATUS_OF_OUR_OWN = 125
STATUS_NOT_EXECUTABLE = 126
STATUS_NOT_FOUND = 127

_STATUS_OF_ERRNO = {
    ENOENT: STATUS_NOT_FOUND,
    EACCES: STATUS_NOT_EXECUTABLE,
    EPERM: STATUS_NOT_EXECUTABLE,
    ENOEXEC: STATUS_NOT_EXECUTABLE,
}
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "run",
        help="run a command",
        usage="paddock run [--url URL] [--cwd DIR] [--env NAME=VALUE] [--tty | --no-tty] -- COMMAND [ARG]...",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", metavar="URL", help="the server: ws://, wss:// or unix:///path")
    parser.add_argument("--cwd", metavar="DIR", help="where to run it (default: the server's directory)")
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        type=_variable,
        action="append",
        default=[],
        help="set a variable on top of the server's environment; may be repeated",
    )
    parser.add_argument(
        "--tty",
        action=argparse.BooleanOptionalAction,
        help="give it a terminal, or pipes (default: a terminal if both stdin and stdout are one)",
    )
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program and its arguments"
    )
    parser.set_defaults(handler=run, usage_error=parser.error)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the status to exit with is returned."""
    import asyncio

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        arguments.usage_error("give a command to run after --")
    cwd = arguments.cwd
    if cwd is not None and arguments.url is None:
        cwd = os.path.abspath(cwd)
    try:
        return asyncio.run(_run(arguments, command, cwd))
    except PaddockError as error:
        return _fail(str(error))


async def _run(arguments: argparse.Namespace, command: list[str], cwd: str | None) -> int:
    from paddock.cli.relay import STDIN, STDOUT, Relay, has_piped_input
    from paddock.client.connect import connect

    is_terminal = arguments.tty
    if is_terminal is None:
        is_terminal = os.isatty(STDIN) and os.isatty(STDOUT)
    async with connect(arguments.url, client_name="paddock-run") as box:
        # Piped input has an end, which some servers can't pass on: to let the command wait for it in vain
        # would be worse than to give it none.
        has_stdin = is_terminal or box.has("processCloseStdin")
        try:
            process = await _start(box, command, cwd, dict(arguments.env), is_terminal, has_stdin)
        except (PaddockError, ValueError) as error:
            return _fail(_reason(error, command[0]), _status_of(error, cwd))
        if not has_stdin and has_piped_input():
            print("paddock run: this server can't close stdin, so the command gets none", file=sys.stderr)
        outcome = await Relay(process, is_terminal=is_terminal, has_stdin=has_stdin).run()
    return outcome.status if outcome.problem is None else _fail(outcome.problem, outcome.status)


async def _start(
    box: Box, command: list[str], cwd: str | None, env: dict[str, str], is_terminal: bool, has_stdin: bool
) -> Process:
    from paddock.cli.relay import window_size

    tty: bool | TerminalSize = False
    if is_terminal:
        tty = window_size() if box.has("processIo") else True
        if "TERM" in os.environ:
            env = {"TERM": os.environ["TERM"]} | env
    return await box.start(command, cwd=cwd, extra_env=env, tty=tty, stdin=has_stdin)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _reason(error: Exception, program: str) -> str:
    """What to tell; servers of the reference protocol give no more than the operating system's words."""
    text = str(error)
    return f"can't start {program!r}: {text}" if _OS_ERROR.search(text) and program not in text else text


def _status_of(error: Exception, cwd: str | None) -> int:
    """The status that a shell would give for a failed start."""
    found = _OS_ERROR.search(str(error))
    is_about_cwd = cwd is not None and f" in {cwd!r}" in str(error)
    if found is None or is_about_cwd or not isinstance(error, OperationFailed):
        return STATUS_OF_OUR_OWN
    return _STATUS_OF_ERRNO.get(int(found[1]), STATUS_OF_OUR_OWN)


def _fail(problem: str, status: int = STATUS_OF_OUR_OWN) -> int:
    print(f"paddock run: {problem}", file=sys.stderr)
    return status

"""`paddock run`: run a command on a server as if it ran here, or leave it running there.

Declares the verb and turns failures into exit statuses; `relay` moves the bytes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from errno import EACCES, ENOENT, ENOEXEC, EPERM
from typing import TYPE_CHECKING

from paddock.cli.options import seconds
from paddock.cli.profile_choice import add_profile_option, sandbox_of
from paddock.errors import OperationFailed, PaddockError, SpawnError
from paddock.host_text import utf8_text

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from paddock.cli.options import Verbs
    from paddock.client.box import Box
    from paddock.client.confinement import Sandbox
    from paddock.client.process import Process
    from paddock.model.terminal import TerminalSize

DESCRIPTION = """\
Run a command on a server as if it ran here: its output comes out unchanged, its
input is this input, signals reach it, and its exit status is the status of
paddock. In a terminal it gets a terminal. Without --url or --server a private server
is started, which ends with the command.

With --detach the command is left running on a server that is there already, without
input unless it has a terminal, and its id is printed: `paddock logs`, `attach` and
`kill` take it. Without --url or --server that is the only server of this user.
"""

EXAMPLES = """\
examples:
  paddock run -- make test                          on this host
  paddock run --url ws://127.0.0.1:4100 -- uname    on a server
  paddock run --url wss://build.example:4100 --token-file ~/.paddock-token -- make
  tar c . | paddock run --url unix:///run/paddock.sock -- tar x -C /tmp/copy
  paddock run --profile :workspace -- make test     with the files and network of a profile
  paddock run --env LANG=C --cwd /tmp -- bash       interactively
  id=$(paddock run --detach -- make all); paddock logs --follow $id
  paddock run --detach --tty -- bash                a shell to come back to, with paddock attach

exit status:
  the command's own, 128+n if signal n ended it, 127 if it was not found, 126 if it
  could not be executed, and 125 if paddock itself failed. With --detach, 0 once the
  command runs.
"""

CLIENT_NAME = "paddock-run"
RECONNECT_S = 25.0
"""Within the 30 s that servers keep a session by default."""

DETACHED_ID_BYTES = 6
"""Of randomness in the id of a detached command: 12 characters to copy, and no two alike in practice."""

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
        usage="paddock run [--url URL | --server SERVER] [--detach] [--tty | --no-tty] [OPTION]...\n"
        "                   -- COMMAND [ARG]...",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", metavar="URL", help="the server: ws://, wss:// or unix:///path")
    where.add_argument(
        "--server", metavar="SERVER", help="a server of this user: its pid, or the path of its control socket"
    )
    parser.add_argument("--token-file", metavar="FILE", help="with --url: file with the token to show it")
    parser.add_argument("--tls-ca", metavar="FILE", help="with --url: certificates to trust, for wss://")
    parser.add_argument(
        "--reconnect",
        metavar="SECONDS",
        type=seconds,
        default=RECONNECT_S,
        help="with --url: how long to try to get a lost connection back (default 25; 0 not at all)",
    )
    parser.add_argument("-d", "--detach", action="store_true", help="leave it running and print its id")
    parser.add_argument(
        "--cwd", metavar="DIR", help="where to run it (default: here; with --url, the server's directory)"
    )
    add_profile_option(parser, "confine it")
    parser.add_argument(
        "--trace",
        action="store_true",
        help="with --profile: watch what it attempts, and say all that the sandbox refused if it fails",
    )
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
        help="give it a terminal, or pipes (default: a terminal if both stdin and stdout are one; "
        "pipes with --detach)",
    )
    parser.add_argument(
        "command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program and its arguments"
    )
    parser.set_defaults(handler=run, usage_error=parser.error)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the status to exit with is returned."""
    import asyncio

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    command = [utf8_text(argument) for argument in command]
    if not command:
        arguments.usage_error("give a command to run after --")
    if arguments.url is None and (arguments.token_file or arguments.tls_ca):
        arguments.usage_error("--token-file and --tls-ca go with --url")
    if arguments.trace and arguments.profile is None:
        arguments.usage_error("--trace goes with --profile")
    try:
        cwd = _directory(arguments)
        if arguments.detach:
            return asyncio.run(_run_detached(arguments, command, cwd))
        return asyncio.run(_run(arguments, command, cwd))
    except PaddockError as error:
        return _fail(str(error))


def _sandbox(arguments: argparse.Namespace, box: Box, cwd: str | None) -> Sandbox | None:
    """What to confine the command to. Its workspace is where it runs, and what the profile adds."""
    if arguments.profile is None:
        return None
    return sandbox_of(arguments.profile, box, cwd, is_traced=arguments.trace)


def _directory(arguments: argparse.Namespace) -> str | None:
    """Where to run the command; None is the server's own directory, for a private one the same as ours."""
    cwd: str | None = arguments.cwd
    if arguments.url is not None:
        return utf8_text(cwd) if cwd is not None else None
    try:
        if cwd is None and not (arguments.detach or arguments.server):
            # Asked for to learn that it is there: without one, the server would choose another.
            os.getcwd()
            return None
        # A server that is found here shares the directories of this host.
        return utf8_text(os.path.abspath(cwd or os.curdir))
    except FileNotFoundError as error:
        raise PaddockError("the current directory is gone; choose another with --cwd") from error


async def _run_detached(arguments: argparse.Namespace, command: list[str], cwd: str | None) -> int:
    import secrets

    from paddock.cli.descriptor import STDOUT, write_all

    url = arguments.url or await _local_url(arguments.server)
    async with _connect(arguments, url) as box:
        try:
            process = await box.start(
                command,
                cwd=cwd,
                extra_env=dict(arguments.env),
                tty=bool(arguments.tty),
                process_id=secrets.token_hex(DETACHED_ID_BYTES),
                keep_alive=True,
                sandbox=_sandbox(arguments, box, cwd),
            )
        except (PaddockError, ValueError) as error:
            return _fail(_reason(error, command[0]), _status_of(error))
    try:
        write_all(STDOUT, f"{process.process_id}\n".encode())
    except OSError as error:
        return _fail(f"{process.process_id} runs, but its id can't be written: {error.strerror}")
    return 0


def _connect(arguments: argparse.Namespace, url: str | None) -> AbstractAsyncContextManager[Box]:
    from paddock.cli.connecting import opened, read_token
    from paddock.client.connect import connect
    from paddock.client.reconnect import ReconnectPolicy

    if arguments.url is None:
        # A server on this host is there or is not.
        return opened(connect(url, client_name=CLIENT_NAME, reconnect=None))
    policy: ReconnectPolicy | None = None
    if arguments.reconnect:
        # Another session would not have the command.
        policy = ReconnectPolicy(max_time_s=arguments.reconnect, new_session=False)
    token = read_token(arguments.token_file)
    return opened(
        connect(url, client_name=CLIENT_NAME, token=token, tls_ca=arguments.tls_ca, reconnect=policy)
    )


async def _local_url(server: str | None) -> str:
    """Where a server of this user can be reached. Over its control socket, which asks for no token."""
    from paddock.cli.survey import lasting_server

    return f"unix://{await lasting_server(server, CLIENT_NAME)}"


async def _run(arguments: argparse.Namespace, command: list[str], cwd: str | None) -> int:
    from paddock.cli.descriptor import STDIN, STDOUT
    from paddock.cli.relay import Relay
    from paddock.cli.streams import has_piped_input

    url = arguments.url
    if arguments.server is not None:
        url = await _local_url(arguments.server)
    is_terminal = arguments.tty
    if is_terminal is None:
        is_terminal = os.isatty(STDIN) and os.isatty(STDOUT)
    async with _connect(arguments, url) as box:
        # Piped input has an end, which some servers can't pass on: to let the command wait for it in vain
        # would be worse than to give it none.
        has_stdin = is_terminal or box.has("processCloseStdin")
        try:
            process = await _start(box, arguments, command, cwd, is_terminal, has_stdin)
        except (PaddockError, ValueError) as error:
            return _fail(_reason(error, command[0]), _status_of(error))
        if not has_stdin and has_piped_input():
            print("paddock run: this server can't close stdin, so the command gets none", file=sys.stderr)
        outcome = await Relay(process, is_terminal=is_terminal, has_stdin=has_stdin).run()
    if arguments.profile is not None and process.ending is not None:
        from paddock.cli.denial_text import explanations

        for line in explanations(process.ending):
            print(f"paddock run: {line}", file=sys.stderr)
    return outcome.status if outcome.problem is None else _fail(outcome.problem, outcome.status)


async def _start(
    box: Box,
    arguments: argparse.Namespace,
    command: list[str],
    cwd: str | None,
    is_terminal: bool,
    has_stdin: bool,
) -> Process:
    from paddock.cli.streams import window_size

    env = dict(arguments.env)
    tty: bool | TerminalSize = False
    if is_terminal:
        tty = window_size() if box.has("processIo") else True
        if "TERM" in os.environ:
            env = {"TERM": os.environ["TERM"]} | env
    return await box.start(
        command,
        cwd=cwd,
        extra_env=env,
        tty=tty,
        stdin=has_stdin,
        sandbox=_sandbox(arguments, box, cwd),
    )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = utf8_text(text).partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _reason(error: Exception, program: str) -> str:
    """What to tell; servers of the reference protocol give no more than the operating system's words."""
    text = str(error)
    return f"can't start {program!r}: {text}" if _OS_ERROR.search(text) and program not in text else text


def _status_of(error: Exception) -> int:
    """The status that a shell would give for a failed start."""
    if isinstance(error, SpawnError):
        number = error.errno if error.stage == "exec" else None
    else:
        found = _OS_ERROR.search(str(error)) if isinstance(error, OperationFailed) else None
        number = int(found[1]) if found is not None else None
    return _STATUS_OF_ERRNO.get(number, STATUS_OF_OUR_OWN) if number is not None else STATUS_OF_OUR_OWN


def _fail(problem: str, status: int = STATUS_OF_OUR_OWN) -> int:
    print(f"paddock run: {problem}", file=sys.stderr)
    return status

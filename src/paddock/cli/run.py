"""`paddock run`: run a command on a server as if it ran here, or leave it running there.

Declares the verb and turns failures into exit statuses; `relay` moves the bytes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.cli import exit_status
from paddock.cli.message import error_text, failed, os_error_text, tell
from paddock.cli.network_choice import (
    add_network_options,
    add_secret_option,
    has_network_options,
    named_profile,
    with_network,
)
from paddock.cli.options import seconds
from paddock.cli.profile_choice import add_profile_option, sandbox_of
from paddock.cli.server_choice import URL_HELP, add_credential_options, token_for, url_of_environment
from paddock.cli.variable import add_variable_option
from paddock.errors import OperationFailed, PaddockError, SpawnError
from paddock.host_text import utf8_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from paddock.cli.connection_watch import ConnectionWatch
    from paddock.cli.exec_prompt import ExecPrompt
    from paddock.cli.options import Verbs
    from paddock.cli.run_rules import RunRules
    from paddock.client.box import Box
    from paddock.client.confinement import Sandbox
    from paddock.client.process import Process
    from paddock.model.terminal import TerminalSize
    from paddock.protocol.intercept import InterceptParams

DESCRIPTION = """\
Run a command on a server as if it ran here: its output comes out unchanged, it
reads this input, signals reach it, and paddock exits with its status. In a terminal
it gets a terminal. Without --url, PADDOCK_URL or --server it runs on a server inside
this process, which ends with the command.

With --detach, leave the command running on a server that is there already, and print
its id for `paddock logs`, `attach` and `kill`. It has no input unless it has a
terminal. Without --url, PADDOCK_URL or --server it runs on your only server.
"""

EXAMPLES = """\
examples:
  paddock run -- make test                          on this host
  paddock run --server -- make test                 on your only server
  paddock run --url ws://127.0.0.1:4100 -- uname    on another
  paddock run --url wss://build.example:4100 --token-file ~/.paddock-token -- make
  tar c . | paddock run --url unix:///run/paddock.sock -- tar x -C /tmp/copy
  paddock run --profile :workspace -- make test     with the files and network of a profile
  paddock run --profile :workspace --rules team.rules -- bash deploy.sh
  paddock run --env LANG=C --cwd /tmp -- bash       interactively
  id=$(paddock run --detach -- make all); paddock logs --follow $id
  paddock run --detach --tty -- bash                a shell to come back to, with paddock attach

exit status:
  the command's own, 128+n if signal n ended it, 127 if paddock did not find it, 126 if
  the system could not execute it, and 125 if paddock itself failed. With --detach, 0
  once the command runs.

  Paddock waits for all output, also for that of processes which the command leaves
  behind. Once the command has ended, SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGQUIT end
  that wait. The status stays the command's, and the server inside paddock ends what is
  left behind.
"""

VERB = "run"
CLIENT_NAME = "paddock-run"
RECONNECT_S = 25.0
"""Within the 30 s that servers keep a session by default."""

ONLY_SERVER = ""
"""The value of `--server` when it is given without one."""

DETACHED_ID_BYTES = 6
"""Random bytes in the id of a detached command: 12 characters to copy, and no two alike in practice."""

_OS_ERROR = r"\(os error (\d+)\)"


PLAIN_OPTIONS: Mapping[str, str] = {}
PLAIN_ARGUMENTS = {
    "url": None,
    "server": None,
    "token_file": None,
    "tls_ca": None,
    "reconnect": RECONNECT_S,
    "detach": False,
    "cwd": None,
    "profile": None,
    "allow_host": (),
    "allow_group": (),
    "deny_host": (),
    "allow_local": False,
    "secret": (),
    "trace": False,
    "rules": (),
    "env": (),
    "tty": None,
}
"""See `plain_command_line`."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    from argparse import REMAINDER, BooleanOptionalAction
    from pathlib import Path

    parser = verbs.add_parser(
        VERB,
        help="run a command",
        usage="paddock run [--url URL | --server SERVER] [--detach] [--tty | --no-tty] [OPTION]...\n"
        "                   -- COMMAND [ARG]...",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", metavar="URL", help=f"the server, {URL_HELP}")
    where.add_argument(
        "--server",
        metavar="SERVER",
        nargs="?",
        const=ONLY_SERVER,
        help="a server of yours: its pid, or the path of its control socket; your only one if it is left out",
    )
    add_credential_options(parser)
    parser.add_argument(
        "--reconnect",
        metavar="SECONDS",
        type=seconds,
        default=RECONNECT_S,
        help="with --url: how long to try to restore a lost connection (default 25; 0 not at all)",
    )
    parser.add_argument("-d", "--detach", action="store_true", help="leave it running and print its id")
    parser.add_argument(
        "--cwd", metavar="DIR", help="where to run it (default: here; with --url, the server's directory)"
    )
    add_profile_option(parser, "confine it")
    add_network_options(parser)
    add_secret_option(parser)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="with --profile: watch what it attempts and, if it fails, say all that the sandbox refused",
    )
    parser.add_argument(
        "--rules",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="with --profile: rules, or a directory of them, that decide on each program that it executes: "
        "a forbidden one is denied, an allowed one runs outside of the sandbox, and for a prompt you are "
        "asked at the terminal; may be repeated",
    )
    add_variable_option(parser, "the server's environment")
    parser.add_argument(
        "--tty",
        action=BooleanOptionalAction,
        help="give it a terminal, or pipes (default: a terminal if both stdin and stdout are one; "
        "pipes with --detach)",
    )
    parser.add_argument("command", metavar="COMMAND", nargs=REMAINDER, help="the program and its arguments")
    parser.set_defaults(handler=run, usage_error=parser.error)


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    from paddock.cli import late_import

    late_import.import_asyncio()
    from paddock.cli.interruptible import run_interruptible

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    command = [utf8_text(argument) for argument in command]
    if not command:
        arguments.usage_error("give a command to run after --")
    if arguments.server is None:
        arguments.url = arguments.url or url_of_environment()
    if arguments.url is None and (arguments.token_file or arguments.tls_ca):
        arguments.usage_error("--token-file and --tls-ca go with --url")
    if arguments.trace and arguments.profile is None:
        arguments.usage_error("--trace goes with --profile")
    if has_network_options(arguments) and arguments.profile is None:
        arguments.usage_error(
            "--allow-host, --allow-group, --deny-host, --allow-local and --secret go with --profile"
        )
    if arguments.rules and arguments.profile is None:
        arguments.usage_error("--rules goes with --profile")
    if arguments.rules and arguments.detach:
        arguments.usage_error("--rules goes without --detach")
    try:
        cwd = _directory(arguments)
        if arguments.detach:
            return run_interruptible(_run_detached(arguments, command, cwd))
        return run_interruptible(_run(arguments, command, cwd))
    except PaddockError as error:
        return failed(error_text(error), VERB)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Too few descriptors, for example.
        return failed(os_error_text(error), VERB)


def _sandbox(arguments: argparse.Namespace, box: Box, cwd: str | None) -> Sandbox | None:
    """Return the command's sandbox. Its workspace is where it runs, and what the profile adds."""
    if arguments.profile is None:
        return None
    profile = arguments.profile
    if has_network_options(arguments):
        profile = with_network(named_profile(profile) if isinstance(profile, str) else profile, arguments)
    if arguments.rules and not isinstance(profile, str):
        from paddock.cli.run_rules import with_host_rules

        profile = with_host_rules(profile, arguments.rules)
    return sandbox_of(profile, box, cwd, is_traced=arguments.trace)


def _directory(arguments: argparse.Namespace) -> str | None:
    """Return where to run the command.

    None is the server's own directory, which for a private server is the same as ours.
    """
    cwd: str | None = arguments.cwd
    if arguments.url is not None:
        return utf8_text(cwd) if cwd is not None else None
    try:
        if cwd is None and not (arguments.detach or arguments.server is not None):
            # Asked for to learn that it is there: without one, the server would choose another.
            os.getcwd()
            return None
        # A server that is found here shares the directories of this host.
        return utf8_text(os.path.abspath(cwd or os.curdir))
    except FileNotFoundError as error:
        raise PaddockError("the current directory is gone; choose another with --cwd") from error


async def _run_detached(arguments: argparse.Namespace, command: list[str], cwd: str | None) -> int:
    import secrets

    from paddock.cli.connecting import own_server_url
    from paddock.cli.descriptor import STDOUT, write_all

    url = arguments.url or await own_server_url(arguments.server or None, CLIENT_NAME)
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
            return failed(_reason(error, command[0]), VERB, _status_of(error))
    try:
        write_all(STDOUT, f"{process.process_id}\n".encode())
    except OSError as error:
        return failed(f"{process.process_id} runs, but its id can't be written: {error.strerror}", VERB)
    return 0


def _connect(
    arguments: argparse.Namespace,
    url: str | None,
    prompt: ExecPrompt | None = None,
    watch: ConnectionWatch | None = None,
) -> AbstractAsyncContextManager[Box]:
    on_request = None if prompt is None else {"process/execApproval": prompt}
    if url is None:
        from paddock.cli.embedded_server import embedded_server

        # It lets out what the rules of its user allow.
        return embedded_server(CLIENT_NAME, allow_escalation=bool(arguments.rules), on_request=on_request)
    from paddock.cli.connecting import opened
    from paddock.client.connect import connect
    from paddock.client.reconnect import ReconnectPolicy

    if arguments.url is None:
        # A server on this host is there or is not.
        return opened(connect(url, client_name=CLIENT_NAME, reconnect=None, on_request=on_request))
    policy: ReconnectPolicy | None = None
    if arguments.reconnect:
        # Another session would not have the command.
        on_change = None if watch is None else watch.changed
        policy = ReconnectPolicy(max_time_s=arguments.reconnect, new_session=False, on_change=on_change)
    token = token_for(arguments.url, arguments.token_file)
    return opened(
        connect(
            url,
            client_name=CLIENT_NAME,
            token=token,
            tls_ca=arguments.tls_ca,
            reconnect=policy,
            on_request=on_request,
        )
    )


async def _run(arguments: argparse.Namespace, command: list[str], cwd: str | None) -> int:
    from paddock.cli.descriptor import STDERR, STDIN, STDOUT, is_read
    from paddock.cli.relay import Relay
    from paddock.cli.streams import has_piped_input

    url = arguments.url
    if arguments.server is not None:
        from paddock.cli.connecting import own_server_url

        url = await own_server_url(arguments.server or None, CLIENT_NAME)
    is_terminal = arguments.tty
    if is_terminal is None:
        is_terminal = os.isatty(STDIN) and os.isatty(STDOUT)
    rules = _rules(arguments)
    prompt = _prompt(rules)
    watch = None
    if arguments.url and arguments.reconnect:
        from paddock.cli.connection_watch import ConnectionWatch

        watch = ConnectionWatch(VERB, arguments.reconnect)
    async with _connect(arguments, url, prompt, watch) as box:
        # Piped input has an end, which some servers can't pass on: to let the command wait for it in vain
        # would be worse than to give it none.
        has_stdin = is_terminal or box.has("processCloseStdin")
        try:
            intercept = None if rules is None else rules.intercept(asks=prompt is not None)
            process = await _start(box, arguments, command, cwd, is_terminal, has_stdin, intercept)
        except (PaddockError, ValueError) as error:
            return failed(_reason(error, command[0]), VERB, _status_of(error))
        if not has_stdin and has_piped_input():
            tell("this server can't close stdin, so the command gets none", VERB)
        relay = Relay(process, is_terminal=is_terminal, has_stdin=has_stdin, prompt=prompt, watch=watch)
        outcome = await relay.run()
        if watch is not None and watch.given_up.done():
            # Nobody hears a request to end the command, and closing would wait for an answer.
            await box.detach()
    if prompt is not None:
        prompt.close()
    if relay.is_left and not is_read(STDERR, 0):
        # On a terminal that is stopped, a message would keep this process from ending too.
        return outcome.status
    if arguments.profile is not None and process.ending is not None:
        from paddock.cli.denial_text import explanations
        from paddock.sandbox.profile.enforced import limits_of

        is_named = isinstance(arguments.profile, str)
        limits = None if is_named else limits_of(arguments.profile.profile)
        for line in explanations(process.ending, limits):
            tell(line, VERB)
        if process.ending.execs is not None:
            from paddock.cli.exec_summary import summary_lines

            for line in summary_lines(process.ending.execs):
                tell(line, VERB)
    return outcome.status if outcome.problem is None else failed(outcome.problem, VERB, outcome.status)


async def _start(
    box: Box,
    arguments: argparse.Namespace,
    command: list[str],
    cwd: str | None,
    is_terminal: bool,
    has_stdin: bool,
    intercept: InterceptParams | None,
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
        intercept=intercept,
    )


def _rules(arguments: argparse.Namespace) -> RunRules | None:
    if not arguments.rules:
        return None
    from paddock.cli.run_rules import RunRules

    return RunRules(arguments.rules)


def _prompt(rules: RunRules | None) -> ExecPrompt | None:
    """Return the prompt that answers what rules leave open; None if there are no rules, or no terminal."""
    if rules is None:
        return None
    from paddock.cli.exec_prompt import ExecPrompt

    return ExecPrompt.open(rules.amendment)


def _reason(error: PaddockError | ValueError, program: str) -> str:
    """Return the reason to print; servers of the reference protocol give only the operating system's
    words."""
    import re

    text = error_text(error)
    return f"can't start {program!r}: {text}" if re.search(_OS_ERROR, text) and program not in text else text


def _status_of(error: Exception) -> int:
    """Return the status that a shell would give for a failed start."""
    import re

    if isinstance(error, SpawnError):
        number = error.errno if error.stage == "exec" else None
    else:
        found = re.search(_OS_ERROR, str(error)) if isinstance(error, OperationFailed) else None
        number = int(found[1]) if found is not None else None
    return exit_status.of_failed_start(number)

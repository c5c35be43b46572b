"""`paddock mcp`: a sandboxed shell for any MCP client."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli import exit_status, garbage, mcp_install
from paddock.cli.message import beginning, failed, tell
from paddock.cli.options import Verbs, add_verb, seconds
from paddock.cli.profile_choice import add_profile_option
from paddock.cli.server_choice import add_credential_options, read_token
from paddock.errors import ConfigError, PaddockError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterator
    from typing import Any

    from paddock.agent.approval import Approver
    from paddock.agent.command_rules import CommandRules
    from paddock.config import Settings
    from paddock.mcp_server.workplace import Terms, Workplace
    from paddock.rules.policy import Policy
    from paddock.rules.source import RulesSource
    from paddock.sandbox.profile.table import WrittenProfile
    from paddock.server.http_listener import HttpListener

DESCRIPTION = """\
Serve the tools of Paddock to MCP clients, on standard input and output or over HTTP: `shell`,
`exec_command`, `write_stdin` and tools for files, all in a sandbox. Rules decide which programs may
leave the sandbox; where a rule says `prompt`, the client asks its user. A client may narrow the
sandbox but never widen it.
"""

EXAMPLES = """\
examples:
  paddock mcp                                          the workspace is the client's, or this directory
  paddock mcp --workspace ~/project --tools shell      one directory, one tool
  paddock mcp --profile :read-only --rules team.rules  nothing is written but what the rules let out
  paddock mcp --server ws://10.0.0.7:4100              run it all on another Paddock
  paddock mcp install --client claude-code             add it to a client
  paddock mcp --ask console                            answer with `paddock approve`
  paddock mcp --listen http://127.0.0.1:8000 --listen-token-file ~/.paddock-token
                                                       over HTTP; the URL is the line on standard output

It follows the rules of the system and the user when their files change. SIGHUP makes it read its
rules, its token and its certificate again.

exit status:
  0 when the client has gone, or after SIGTERM or SIGINT over HTTP.
"""

VERB = "mcp"

PROMPT_TIMEOUT_S = 300.0

FLAGS = {"ws_token_file": "--listen-token-file", "tls_cert": "--tls-cert", "tls_key": "--tls-key"}
"""The flags behind the settings of the listener, which errors name."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs,
        VERB,
        run,
        help="give any MCP client a sandboxed shell",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--workspace",
        metavar="DIR",
        help="what commands may write (default: the client's roots, or this directory)",
    )
    add_profile_option(parser, "the most that any client gets (default :workspace)")
    parser.add_argument(
        "--rules",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="rules about programs, a file or a directory of files, in place of those of the system and "
        "the user; "
        "may be repeated",
    )
    parser.add_argument("--server", metavar="URL", help="run everything on this Paddock server")
    add_credential_options(parser)
    parser.add_argument("--tools", metavar="NAMES", help="tools to offer, separated by commas (default: all)")
    parser.add_argument(
        "--ask",
        choices=("client", "console"),
        default="client",
        help="who answers questions: the user of the client, or whoever runs `paddock approve` (default "
        "client)",
    )
    parser.add_argument(
        "--prompt-timeout",
        metavar="SECONDS",
        type=seconds,
        default=PROMPT_TIMEOUT_S,
        help="how long to wait for an answer; no answer means no (default 300)",
    )
    parser.add_argument(
        "--listen", metavar="URL", help="http://IP:PORT, in place of standard input and output"
    )
    parser.add_argument(
        "--listen-token-file", metavar="FILE", help="file with the token that clients must show"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate, for https://")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key")
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", help="instead of serving")
    mcp_install.add_parser(actions)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client disconnects."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        return failed(
            "the MCP SDK is not installed; run: pip install 'paddock-exec[mcp]'", VERB, exit_status.FAILURE
        )
    import uvloop

    try:
        uvloop.run(_serve(arguments))
    except PaddockError as error:
        return failed(_told(error), VERB, exit_status.FAILURE)
    return 0


def _told(error: PaddockError) -> str:
    if isinstance(error, ConfigError) and error.key in FLAGS:
        return f"{FLAGS[error.key]}: {error.problem}"
    return str(error)


async def _serve(arguments: argparse.Namespace) -> None:
    import asyncio
    import logging
    import signal
    from contextlib import AsyncExitStack

    from paddock.cli.hangup import Hangup

    stop, reload = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, Hangup(stop.set, reload.set).received)
    # Files of rules are evaluated in a child; meanwhile this process imports the SDK, which takes longer.
    rules = asyncio.get_running_loop().run_in_executor(None, _rules, arguments)

    from paddock.agent.console import ConsoleApprover
    from paddock.mcp_server.stdio import serve_stdio
    from paddock.mcp_server.workplace import ServerAddress, Workplace

    logging.basicConfig(level=logging.WARNING, format=f"{beginning(VERB)}%(message)s")
    try:
        terms = _terms(arguments)
        address = ServerAddress(arguments.server, read_token(arguments.token_file), arguments.tls_ca)
    finally:
        in_force, source = await rules
    workplace = Workplace(address, in_force)
    # Imported modules live as long as the server.
    garbage.resume()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(workplace.aclose)
        listener = None if arguments.listen is None else _listener(arguments)
        stack.callback(asyncio.create_task(_reload_whenever(reload, arguments, in_force, listener)).cancel)
        if source is not None:
            stack.callback(asyncio.create_task(_follow(source)).cancel)
        console = await stack.enter_async_context(ConsoleApprover()) if arguments.ask == "console" else None
        if listener is None:
            await _until(stop, serve_stdio(workplace, terms, console))
        else:
            await _serve_http(listener, workplace, terms, console, stop)


async def _until(stop: asyncio.Event, serving: Coroutine[Any, Any, None]) -> None:
    """Serve until the client disconnects, or until `stop`."""
    import asyncio

    tasks = asyncio.create_task(serving), asyncio.create_task(stop.wait())
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    if not tasks[0].cancelled():
        tasks[0].result()


async def _serve_http(
    listener: HttpListener,
    workplace: Workplace,
    terms: Terms,
    console: Approver | None,
    stop: asyncio.Event,
) -> None:
    import asyncio

    from paddock.cli.signal_set import STOPPING_SERVER
    from paddock.mcp_server.http import HttpSessions, serve_http
    from paddock.mcp_server.service import Service, offered
    from paddock.mcp_server.session import Session

    sessions = HttpSessions(lambda: Session(workplace, terms, console))
    service = Service(offered(terms.tools), sessions.of)
    for number in STOPPING_SERVER:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve_http(listener, service, sessions, announce=_announce, stop=stop)


def _listener(arguments: argparse.Namespace) -> HttpListener:
    """Return where to listen and which requests to accept, by the rules of Paddock's own server."""
    from paddock.installation import conceal
    from paddock.server.http import host_name, is_loopback
    from paddock.server.http_listener import HttpListener

    settings = _listen_settings(arguments)
    # The server that runs the commands is another process, and does not know them.
    conceal(*filter(None, (settings.ws_token_file, settings.tls_key)))
    if arguments.listen_token_file is None:
        if not is_loopback(host_name(arguments.listen.partition("://")[2]) or ""):
            raise PaddockError(
                f"other machines may reach {arguments.listen}, and anybody who does could run commands; give "
                "--listen-token-file, or listen on 127.0.0.1"
            )
        tell(
            "no token needed: every user and program on this machine can connect (--listen-token-file)", VERB
        )
    return HttpListener(settings)


def _listen_settings(arguments: argparse.Namespace) -> Settings:
    from paddock.config import make_settings
    from paddock.server.http_listener import websocket_url

    wanted = {
        "listen": websocket_url(arguments.listen),
        "ws_auth": None if arguments.listen_token_file is None else "capability-token",
        "ws_token_file": arguments.listen_token_file,
        "tls_cert": arguments.tls_cert,
        "tls_key": arguments.tls_key,
    }
    return make_settings({name: value for name, value in wanted.items() if value is not None})


def _announce(url: str) -> None:
    print(url, flush=True)


def _terms(arguments: argparse.Namespace) -> Terms:
    import json
    import os

    from paddock.mcp_server.catalogue import ALL_TOOLS, chosen_tools
    from paddock.mcp_server.workplace import Terms
    from paddock.sandbox.profile.codec import encode_profile

    workspace: str | None = arguments.workspace
    if workspace is not None and arguments.server is None:
        workspace = os.path.realpath(os.path.expanduser(workspace))
        if not os.path.isdir(workspace):
            raise PaddockError(f"the workspace {workspace} is not a directory")
    elif workspace is not None and not workspace.startswith("/"):
        raise PaddockError(f"the workspace {workspace!r} is not an absolute path on the server's host")
    profile: str | WrittenProfile = arguments.profile or ":workspace"
    return Terms(
        profile=profile if isinstance(profile, str) else json.loads(encode_profile(profile.profile)),
        tools=tuple(ALL_TOOLS) if arguments.tools is None else chosen_tools(arguments.tools),
        workspace=workspace,
        extra_roots=() if isinstance(profile, str) else tuple(profile.workspace_roots),
        prompt_timeout_s=arguments.prompt_timeout,
    )


def _rules(arguments: argparse.Namespace) -> tuple[CommandRules, RulesSource | None]:
    """Load the rules, and return them with what follows their files, unless the user has named others."""
    from paddock.agent.command_rules import CommandRules
    from paddock.rules.layer import AMENDED_FILE, standard_layers, user_directory
    from paddock.rules.policy import Policy
    from paddock.rules.source import RulesSource

    if arguments.rules:
        # An "always" counts for this server alone: it need not be in what was named there.
        return CommandRules(_policy(arguments)), None
    rules = CommandRules(Policy(), user_directory() / AMENDED_FILE)
    source = RulesSource(standard_layers(), rules.renew)
    for problem in source.reload().problems:
        tell(f"not in force: {problem}", VERB)
    return rules, source


def _policy(arguments: argparse.Namespace) -> Policy:
    from paddock.cli.run_rules import rule_files
    from paddock.rules.layer import standard_layers
    from paddock.rules.loader import load_layers, load_sound_policy

    if arguments.rules:
        return load_sound_policy(rule_files(arguments.rules))
    return load_layers(standard_layers())


async def _follow(source: RulesSource) -> None:
    """Put changed rules in force until this is cancelled."""
    import asyncio

    from paddock.errors import RulesError

    try:
        async with source.followed():
            await asyncio.Event().wait()
    except RulesError as error:
        tell(f"{error}; until then SIGHUP makes it read the rules again", VERB)


async def _reload_whenever(
    wanted: asyncio.Event, arguments: argparse.Namespace, rules: CommandRules, listener: HttpListener | None
) -> None:
    """Read the rules, the token and the certificate again each time that somebody asks for it."""
    import asyncio

    while True:
        await wanted.wait()
        wanted.clear()
        try:
            policy = await asyncio.to_thread(_sound_policy, arguments)
            if listener is not None:
                await asyncio.to_thread(listener.renew, _listen_settings(arguments))
        except PaddockError as error:
            tell(f"not reloaded, everything stays as it was: {_told(error)}", VERB)
            continue
        rules.renew(policy)
        tell(f"reloaded: {', '.join(_reloaded(policy, arguments))}", VERB)


def _sound_policy(arguments: argparse.Namespace) -> Policy:
    policy = _policy(arguments)
    if policy.problems:
        raise PaddockError("; ".join(map(str, policy.problems)))
    return policy


def _reloaded(policy: Policy, arguments: argparse.Namespace) -> Iterator[str]:
    yield f"the rules ({len(policy.rules)} about programs)"
    if arguments.listen is not None and arguments.listen_token_file is not None:
        yield "the token"
    if arguments.listen is not None and arguments.tls_cert is not None:
        yield "the certificate"

"""`paddock serve`: run a server until it is told to stop."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli import garbage
from paddock.errors import ConfigError, PaddockError
from paddock.model.listen_setting import LISTEN_SETTINGS

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from paddock.config import Settings
    from paddock.server.app import Server

    Verbs = _SubParsersAction[argparse.ArgumentParser]

SWEREX_LISTEN = "http://127.0.0.1:0"

DESCRIPTION = """\
Listen for clients and run commands for them. The URL to connect to is the only
line on standard output; logs go to standard error. SIGTERM or SIGINT ends the
server: its processes get SIGTERM, a grace period, then SIGKILL. SIGHUP does the
same when the server's terminal is gone. Otherwise it makes the server read its
settings, tokens, certificates and rules again.
"""

EXAMPLES = """\
examples:
  paddock serve                                   ws://127.0.0.1 on a free port
  paddock serve --listen ws://127.0.0.1:4100
  paddock serve --listen unix:///tmp/paddock.sock
  paddock serve --listen stdio                    one client, on stdin and stdout
  paddock serve --config paddock.toml
  paddock serve --log-level info --log-format json
  paddock serve --listen ws://0.0.0.0:4100 --ws-auth capability-token --ws-token-file ~/.paddock-token \\
      --tls-cert cert.pem --tls-key key.pem       for other machines
  paddock serve --swerex --workspace ~/project    for SWE-agent and others, by SWE-ReX's protocol
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "serve",
        help="run a server",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "--listen",
        metavar="URL",
        help="ws://IP:PORT, wss://IP:PORT, unix:///path or stdio (default ws://127.0.0.1:0)",
    )
    parser.add_argument(
        "--concurrent-requests",
        metavar="N",
        type=_positive,
        help="requests of one connection that run at once; 1 is strictly serial (default 64)",
    )
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="TOML file with settings; flags override it"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="what to log: everything that happens (info), or only what is wrong (warning, the default)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        help="format of a log line; each event is one line (default text)",
    )
    parser.add_argument(
        "--audit-log", metavar="DIR", help="directory of the audit log, which records every start and exit"
    )
    parser.add_argument(
        "--use-legacy-landlock",
        action="store_true",
        default=None,
        help="make sandboxes with Landlock alone, without bubblewrap, where Landlock can express the profile",
    )
    parser.add_argument(
        "--allow-escalation",
        action="store_true",
        default=None,
        help="let clients' rules release executed programs from their sandboxes",
    )
    _add_listen_flags(parser)
    _add_swerex_flags(parser)
    parser.set_defaults(handler=run_server)


def _add_listen_flags(parser: argparse.ArgumentParser) -> None:
    # No flag takes a token or a secret itself: every local user can read the arguments of a process.
    options = parser.add_argument_group(
        "who may connect", "needed to listen on an address that other machines can reach"
    )
    options.add_argument(
        "--ws-auth",
        metavar="MODE",
        choices=("capability-token", "signed-bearer-token"),
        help="what clients send as a bearer token: capability-token (a secret string) "
        "or signed-bearer-token (a JWT signed with HS256)",
    )
    options.add_argument("--ws-token-file", metavar="FILE", help="file with the capability token")
    options.add_argument(
        "--ws-token-sha256",
        metavar="HEX",
        help="SHA-256 digest of the capability token, in place of the file",
    )
    options.add_argument(
        "--ws-shared-secret-file", metavar="FILE", help="file with the secret that signs bearer tokens"
    )
    options.add_argument("--ws-issuer", metavar="NAME", help="issuer that signed bearer tokens must have")
    options.add_argument("--ws-audience", metavar="NAME", help="audience that signed bearer tokens must have")
    options.add_argument(
        "--ws-max-clock-skew-seconds",
        metavar="N",
        type=_unsigned,
        help="how many seconds the issuer's clock may be off (default 30)",
    )
    options.add_argument("--tls-cert", metavar="FILE", help="certificate chain in PEM form; makes it wss://")
    options.add_argument("--tls-key", metavar="FILE", help="private key of the certificate, not encrypted")


def _add_swerex_flags(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("SWE-ReX", "for agents that speak its protocol")
    options.add_argument(
        "--swerex",
        action="store_true",
        help=f"serve that over HTTP, in a sandbox; --listen is http://IP:PORT then (default {SWEREX_LISTEN})",
    )
    options.add_argument(
        "--workspace", metavar="DIR", help="what its commands may write (default: a new directory)"
    )
    options.add_argument(
        "--profile",
        metavar="PROFILE",
        help="what confines its commands: a name, a file or JSON, as of `paddock run` (default :workspace)",
    )


def _unsigned(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def run_server(arguments: argparse.Namespace) -> int:
    """Serve until a signal arrives, or the client of stdio disconnects."""
    if (arguments.workspace or arguments.profile) and not arguments.swerex:
        raise PaddockError("--workspace and --profile go with --swerex; other clients name their own")
    settings = _settings(arguments)
    from paddock.server import log

    log.configure(settings.log_format, settings.log_level)
    import uvloop

    try:
        if arguments.swerex:
            from paddock.cli.swerex_server import run_swerex

            return run_swerex(arguments, settings, partial(_settings, arguments))
        return uvloop.run(_serve(settings, arguments))
    except ConfigError as error:
        if arguments.config is not None:
            from paddock.config import locate

            locate(error, arguments.config)
        raise


def _settings(arguments: argparse.Namespace) -> Settings:
    from msgspec.structs import replace

    from paddock.config import load_settings, make_settings

    overrides: dict[str, Any] = {
        name: value
        for name in (
            "listen",
            "concurrent_requests",
            "log_level",
            "log_format",
            "audit_log",
            "use_legacy_landlock",
            "allow_escalation",
            *LISTEN_SETTINGS,
        )
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.swerex:
        from paddock.server.http_listener import websocket_url

        overrides["listen"] = websocket_url(arguments.listen or SWEREX_LISTEN)
    if arguments.config is not None:
        settings = load_settings(arguments.config, overrides)
    else:
        settings = make_settings(overrides)
    if settings.control_socket is None:
        settings = replace(settings, control_socket=True)
    return settings


async def _serve(settings: Settings, arguments: argparse.Namespace) -> int:
    import asyncio
    import signal

    from paddock.cli.hangup import Hangup
    from paddock.cli.server_reload import Reloader
    from paddock.cli.service_manager import ServiceManager
    from paddock.cli.signal_set import STOPPING_SERVER
    from paddock.server.app import serve

    stop, reload = asyncio.Event(), asyncio.Event()
    manager = ServiceManager()
    loop = asyncio.get_running_loop()
    for number in STOPPING_SERVER:
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, Hangup(stop.set, reload.set).received)
    async with serve(settings) as server:
        # Imported modules live as long as the server. It imports the last of them in the next turn.
        loop.call_soon(garbage.resume)
        if server.url != "stdio":
            _announce(server.url)
            if settings.log_format == "text":
                _hint(server)
        reloader = Reloader(server, partial(_settings, arguments), arguments.config)
        tasks = (
            asyncio.create_task(_report_enforcement(server)),
            asyncio.create_task(reloader.whenever(reload, manager)),
            asyncio.create_task(manager.feed_watchdog()),
        )
        manager.ready(server.url)
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.finished.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        manager.stopping()
        for wait in (*waits, *tasks):
            wait.cancel()
    if server.failure is not None:
        raise PaddockError(server.failure)
    return 0


async def _report_enforcement(server: Server) -> None:
    if server.url == "stdio":
        # Its one client learns of it by asking for a sandbox, and most ask for none.
        return
    # Clients need not wait for it, nor for what it takes to load.
    from paddock.server.enforcement import report_enforcement

    server.sandbox_problem = await report_enforcement(server.settings)


def _announce(url: str) -> None:
    try:
        print(url, flush=True)
    except OSError as error:
        # Not the silence of a broken pipe: the program that is about to connect waits for this line.
        raise PaddockError(f"can't write {url} to standard output: {error.strerror}") from error


def _hint(server: Server) -> None:
    from paddock.cli.listen_text import who_can_connect
    from paddock.cli.message import tell
    from paddock.cli.own_command import own_command

    tell(f"listening: {who_can_connect(server.settings)}", "serve")
    if server.settings.ws_auth is None:
        tell(f"try: {own_command()} run --url {server.url} -- echo hello", "serve")

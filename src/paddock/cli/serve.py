"""`paddock serve`: run a server until it is told to stop."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.errors import PaddockError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from paddock.config import Settings
    from paddock.server.app import Server

    Verbs = _SubParsersAction[argparse.ArgumentParser]

DESCRIPTION = """\
Listen for clients and run commands for them. The URL to connect to is the only
line on standard output; logs go to standard error. SIGTERM or SIGINT ends the
server: its processes get SIGTERM, a grace period, then SIGKILL.
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
"""

_DOOR_FLAGS = (
    "ws_auth",
    "ws_token_file",
    "ws_token_sha256",
    "ws_shared_secret_file",
    "ws_issuer",
    "ws_audience",
    "ws_max_clock_skew_seconds",
    "tls_cert",
    "tls_key",
)
"""The settings that `_add_door_flags` declares flags for."""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "serve",
        help="run a server",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
        "--config", metavar="FILE", type=Path, help="TOML file with settings; flags win over it"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="warning",
        help="what to log: info tells what happens, warning only what is wrong (default warning)",
    )
    parser.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="what a line of the log is; one event, one line (default text)",
    )
    parser.add_argument(
        "--audit-log", metavar="DIR", help="directory of the audit log, which tells every start and exit"
    )
    parser.add_argument(
        "--use-legacy-landlock",
        action="store_true",
        default=None,
        help="make sandboxes by Landlock alone, without bubblewrap; only where that can express the profile",
    )
    _add_door_flags(parser)
    parser.set_defaults(handler=run_server)


def _add_door_flags(parser: argparse.ArgumentParser) -> None:
    # No flag takes a token or a secret itself: every local user can read the arguments of a process.
    doors = parser.add_argument_group(
        "who may connect", "needed to listen on an address that other machines can reach"
    )
    doors.add_argument(
        "--ws-auth",
        metavar="MODE",
        choices=("capability-token", "signed-bearer-token"),
        help="what clients send as a bearer token: capability-token (a secret string) "
        "or signed-bearer-token (a JWT signed with HS256)",
    )
    doors.add_argument("--ws-token-file", metavar="FILE", help="file with the capability token")
    doors.add_argument(
        "--ws-token-sha256",
        metavar="HEX",
        help="SHA-256 digest of the capability token, in place of the file",
    )
    doors.add_argument(
        "--ws-shared-secret-file", metavar="FILE", help="file with the secret that signs bearer tokens"
    )
    doors.add_argument("--ws-issuer", metavar="NAME", help="issuer that signed bearer tokens must have")
    doors.add_argument("--ws-audience", metavar="NAME", help="audience that signed bearer tokens must have")
    doors.add_argument(
        "--ws-max-clock-skew-seconds",
        metavar="N",
        type=_unsigned,
        help="how far the clock of the issuer may be off (default 30)",
    )
    doors.add_argument("--tls-cert", metavar="FILE", help="certificate chain in PEM form; makes it wss://")
    doors.add_argument("--tls-key", metavar="FILE", help="private key of the certificate, not encrypted")


def _unsigned(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def run_server(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes, or the client of stdio has gone."""
    import gc

    # Importing makes many objects and hardly any garbage: collecting waits until the server is ready.
    gc.disable()
    from paddock.server import log

    log.configure(log.LogFormat(arguments.log_format), log.LogLevel(arguments.log_level))
    settings = _settings(arguments)
    import uvloop

    return uvloop.run(_serve(settings, has_hint=arguments.log_format == "text"))


def _settings(arguments: argparse.Namespace) -> Settings:
    from msgspec.structs import replace

    from paddock.config import load_settings, make_settings

    overrides: dict[str, Any] = {
        name: value
        for name in ("listen", "concurrent_requests", "audit_log", "use_legacy_landlock", *_DOOR_FLAGS)
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.config is not None:
        settings = load_settings(arguments.config, overrides)
    else:
        settings = make_settings(overrides)
    if settings.control_socket is None:
        settings = replace(settings, control_socket=True)
    return settings


async def _serve(settings: Settings, *, has_hint: bool) -> int:
    import asyncio
    import gc
    import signal

    from paddock.server.app import serve
    from paddock.transport.handshake import ignore_hang_ups

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(ignore_hang_ups)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve(settings) as server:
        # What was imported lives as long as the server: no collection has to look at it again.
        gc.freeze()
        gc.enable()
        if server.url != "stdio":
            _announce(server.url)
            if has_hint:
                _hint(server)
        # Clients need not wait for it, nor for what it takes to load.
        from paddock.server.enforcement import report_enforcement

        report = asyncio.create_task(report_enforcement(settings))
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.finished.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in (*waits, report):
            wait.cancel()
    if server.failure is not None:
        raise PaddockError(server.failure)
    return 0


def _announce(url: str) -> None:
    try:
        print(url, flush=True)
    except OSError as error:
        # Not the silence of a broken pipe: whoever was to connect waits for this line.
        raise PaddockError(f"can't write {url} to standard output: {error.strerror}") from error


def _hint(server: Server) -> None:
    if server.settings.ws_auth is None:
        hint = f"try: paddock run --url {server.url} -- echo hello"
    else:
        hint = f"clients need a bearer token ({server.settings.ws_auth})"
    print(f"listening; {hint}", file=sys.stderr)

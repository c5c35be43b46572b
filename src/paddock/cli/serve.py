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
"""


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
        "--listen", metavar="URL", help="ws://IP:PORT, unix:///path or stdio (default ws://127.0.0.1:0)"
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
    parser.add_argument("--verbose", action="store_true", help="log what happens, not only what is wrong")
    parser.set_defaults(handler=run_server)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def run_server(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes, or the client of stdio has gone."""
    import logging

    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    settings = _settings(arguments)
    import uvloop

    return uvloop.run(_serve(settings))


def _settings(arguments: argparse.Namespace) -> Settings:
    from paddock.config import load_settings, make_settings

    overrides: dict[str, Any] = {
        name: value
        for name in ("listen", "concurrent_requests")
        if (value := getattr(arguments, name)) is not None
    }
    if arguments.config is not None:
        return load_settings(arguments.config, overrides)
    return make_settings(overrides)


async def _serve(settings: Settings) -> int:
    import asyncio
    import signal

    from paddock.server.app import serve

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve(settings) as server:
        if server.url != "stdio":
            print(server.url, flush=True)
            _hint(server.url)
        waits = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.finished.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    if server.failure is not None:
        raise PaddockError(server.failure)
    return 0


def _hint(url: str) -> None:
    print(f"listening; try: paddock run --url {url} -- echo hello", file=sys.stderr)

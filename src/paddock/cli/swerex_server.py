"""`paddock serve --swerex`: the protocol of SWE-ReX, on a server inside this process."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from paddock.cli import exit_status
from paddock.cli.message import failed, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.config import Settings

VERB = "serve"
CLIENT_NAME = "paddock-swerex"


def run_swerex(arguments: argparse.Namespace, settings: Settings, read: Callable[[], Settings]) -> int:
    """Serve until a signal arrives. `read` returns the settings as they are at a reload."""
    from importlib.util import find_spec

    if find_spec("swerex") is None:
        return failed(
            "SWE-ReX is not installed; run: pip install 'paddock-exec[swerex]'", VERB, exit_status.FAILURE
        )
    import uvloop

    uvloop.run(_serve(arguments, settings, read))
    return 0


async def _serve(arguments: argparse.Namespace, settings: Settings, read: Callable[[], Settings]) -> None:
    import asyncio
    import signal

    from paddock.adapters.swerex import PaddockRuntime
    from paddock.adapters.swerex_http import SwerexApplication
    from paddock.cli.embedded_server import embedded_client
    from paddock.cli.hangup import Hangup
    from paddock.cli.server_reload import Reloader
    from paddock.cli.service_manager import ServiceManager
    from paddock.cli.signal_set import STOPPING_SERVER
    from paddock.client.workspace import Workspace
    from paddock.server.app import serve
    from paddock.server.asgi import serve_application
    from paddock.server.http_listener import HttpListener

    stop, reload = asyncio.Event(), asyncio.Event()
    manager = ServiceManager()
    loop = asyncio.get_running_loop()
    for number in STOPPING_SERVER:
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, Hangup(stop.set, reload.set).received)
    listener = HttpListener(settings)
    async with serve(settings, is_listening=False) as server, embedded_client(server, CLIENT_NAME) as box:
        workspace = Workspace(box, directory=_directory(arguments), profile=_profile(arguments))
        runtime = PaddockRuntime(workspace)
        await workspace.open()
        if settings.ws_auth is None:
            tell("no key needed: every user and program on this machine can connect (--ws-auth)", VERB)
        reloader = Reloader(server, read, arguments.config, listener)
        tasks = (
            asyncio.create_task(reloader.whenever(reload, manager)),
            asyncio.create_task(manager.feed_watchdog()),
        )

        def announce(url: str) -> None:
            print(url, flush=True)
            manager.ready(url)

        try:
            application = SwerexApplication(runtime, listener)
            await serve_application(listener, lambda _: application, announce=announce, stop=stop)
        finally:
            manager.stopping()
            for task in tasks:
                task.cancel()
            await runtime.close()
            await workspace.destroy()


def _directory(arguments: argparse.Namespace) -> str | None:
    wanted: str | None = arguments.workspace
    return None if wanted is None else os.path.realpath(os.path.expanduser(wanted))


def _profile(arguments: argparse.Namespace) -> Any:
    import json

    from paddock.client.workspace import PROFILE
    from paddock.sandbox.profile.codec import encode_profile
    from paddock.sandbox.profile.source import names_file, read_profile

    profile: str = arguments.profile or PROFILE
    if not names_file(profile):
        return profile
    return json.loads(encode_profile(read_profile(profile).profile))

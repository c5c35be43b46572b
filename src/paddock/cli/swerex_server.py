"""`paddock serve --swerex`: the protocol of SWE-ReX, on a server inside this process."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from paddock.cli import exit_status
from paddock.cli.message import failed, tell
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.config import Settings
    from paddock.server.asgi import HttpDoor

VERB = "serve"
CLIENT_NAME = "paddock-swerex"


def websocket_url(listen: str) -> str:
    """Return a URL to listen on, as settings have it: with the same checks, and another scheme."""
    scheme, _, rest = listen.partition("://")
    if scheme not in ("http", "https"):
        raise PaddockError(
            f"can't listen on {listen} for SWE-ReX; expected http://IP:PORT or https://IP:PORT"
        )
    return f"{'ws' if scheme == 'http' else 'wss'}://{rest.rstrip('/')}"


def run_swerex(arguments: argparse.Namespace, settings: Settings) -> int:
    """Serve until a signal comes."""
    from importlib.util import find_spec

    if find_spec("swerex") is None:
        return failed(
            "SWE-ReX is not installed; run: pip install 'paddock-exec[swerex]'", VERB, exit_status.FAILURE
        )
    import uvloop

    uvloop.run(_serve(arguments, settings))
    return 0


async def _serve(arguments: argparse.Namespace, settings: Settings) -> None:
    import asyncio
    from functools import partial

    from paddock.adapters.swerex import PaddockRuntime
    from paddock.adapters.swerex_http import SwerexApplication
    from paddock.cli.embedded_server import embedded_client
    from paddock.cli.signal_set import STOPPING_SERVER
    from paddock.client.workspace import Workspace
    from paddock.server.app import serve
    from paddock.server.asgi import serve_application

    stop = asyncio.Event()
    for number in STOPPING_SERVER:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    door = _door(settings)
    async with serve(settings, is_listening=False) as server, embedded_client(server, CLIENT_NAME) as box:
        workspace = Workspace(box, directory=_directory(arguments), profile=_profile(arguments))
        runtime = PaddockRuntime(workspace)
        await workspace.open()
        if settings.ws_auth is None:
            tell("no key is needed: every user and program of this machine can use it (--ws-auth)", VERB)
        try:
            application = SwerexApplication(runtime, door.request_filter)
            await serve_application(
                door, lambda _: application, announce=partial(print, flush=True), stop=stop
            )
        finally:
            await runtime.close()
            await workspace.destroy()


def _door(settings: Settings) -> HttpDoor:
    from paddock.server.address import WebSocketAddress
    from paddock.server.asgi import HttpDoor
    from paddock.server.listen_policy import load_listen_policy

    policy = load_listen_policy(settings)
    address = policy.address
    assert isinstance(address, WebSocketAddress)
    return HttpDoor(address.host, address.port, policy.request_filter, settings.tls_cert, settings.tls_key)


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

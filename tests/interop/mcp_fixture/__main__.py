"""A server for the official conformance runner: its fixture tools on what `paddock mcp` is made of.

It prints its URL and serves until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal

from paddock.config import Settings
from paddock.mcp_server.http import HttpSessions, serve_http
from paddock.mcp_server.service import Service
from paddock.server.http_listener import HttpListener
from tests.interop.mcp_fixture import features
from tests.interop.mcp_fixture.session import FixtureSession
from tests.interop.mcp_fixture.tools import TOOLS

TASK_AFTER_S = 0.1
"""What takes longer becomes a task; the tools that the runner wants as tasks do."""


async def serve() -> None:
    sessions = HttpSessions(lambda: FixtureSession(TOOLS))
    service = Service(
        [tool.declaration for tool in TOOLS.values()],
        lambda context: sessions.of(context).at(context),
        task_after_s=TASK_AFTER_S,
    )
    features.install(service.server)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    listener = HttpListener(Settings(listen="ws://127.0.0.1:0"))
    await serve_http(listener, service, sessions, announce=lambda url: print(url, flush=True), stop=stop)


if __name__ == "__main__":
    asyncio.run(serve())

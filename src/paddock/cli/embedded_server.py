"""A server inside this process, for a verb that names no other.

A second interpreter would take as long again to start as the first. The server's helpers are processes of
their own, in sessions of their own: a Ctrl-C at the terminal does not reach them, and they end with this
process, however it ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.client.answering import RequestHandler
    from paddock.client.box import Box
    from paddock.server.app import Server
    from paddock.transport.link import Accept, Link


@asynccontextmanager
async def embedded_server(
    client_name: str,
    *,
    allow_escalation: bool = False,
    on_request: Mapping[str, RequestHandler] | None = None,
) -> AsyncIterator[Box]:
    """Serve this process alone for the duration of the `async with` block.

    With `allow_escalation`, rules of this client may let programs out of sandboxes. Operators reach the
    server as they reach any other of this user. Raises the errors of `serve` and `open_box`, and then leaves
    nothing running.
    """
    from paddock.config import Settings
    from paddock.model.log_setting import LogFormat, LogLevel
    from paddock.server import log
    from paddock.server.app import serve

    log.configure(LogFormat.TEXT, LogLevel.WARNING)
    # Its types are checked already: msgspec would read those of every setting first.
    settings = Settings(
        listen="stdio",
        control_socket=True,
        allow_escalation=allow_escalation,
        # No second command follows that could use one.
        warm_sandboxes=0,
    )
    async with (
        serve(settings, is_listening=False) as server,
        embedded_client(server, client_name, on_request=on_request) as box,
    ):
        yield box


@asynccontextmanager
async def embedded_client(
    server: Server, client_name: str, *, on_request: Mapping[str, RequestHandler] | None = None
) -> AsyncIterator[Box]:
    """Connect to a server of this process for the duration of the `async with` block."""
    from paddock.client.connection import Connection
    from paddock.client.opening import REQUEST_TIMEOUT_S, open_box
    from paddock.server.app import line_limits
    from paddock.transport.memory import connect_memory

    async def dial(accept: Accept) -> Link:
        _, link = connect_memory(server.accept, accept, line_limits(server.settings))
        return link

    connection = Connection(request_timeout_s=REQUEST_TIMEOUT_S, on_request=dict(on_request or {}))
    async with aclosing(await open_box(connection, dial, client_name=client_name)) as box:
        yield box

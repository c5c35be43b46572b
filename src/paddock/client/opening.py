"""Turns a function that makes links into an open `Box`. It does not know where the links lead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from paddock.client.box import Box
from paddock.client.connection import Connection
from paddock.client.reconnect import ReconnectPolicy
from paddock.client.resume import Dial, Session

REQUEST_TIMEOUT_S = 60.0
"""Far longer than any request takes. Writes and waits, which may take for ever, have no timeout."""

CONNECT_TIMEOUT_S = 10.0


async def open_box(
    connection: Connection,
    dial: Dial,
    *,
    client_name: str,
    policy: ReconnectPolicy | None = None,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    resume: str | None = None,
    when_closed: Callable[[], Awaitable[None]] | None = None,
    url: str | None = None,
) -> Box:
    """Dial and shake hands; leave nothing open on failure. `when_closed` runs after the box has closed."""
    session = Session(
        connection, dial, client_name=client_name, policy=policy, connect_timeout_s=connect_timeout_s
    )
    await session.open(resume)
    return Box(connection, session, when_closed, url=url)

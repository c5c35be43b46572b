"""Passes connections on unchanged to a proxy that somebody else runs on this host.

It judges nothing: the other proxy decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from paddock.model.host_pattern import parse_address
from paddock.network.gateway import connect_by_system
from paddock.network.wire import Wire, relay
from paddock.network.wire_server import Serve

CONNECT_TIMEOUT_S: Final = 5.0
"""On the loopback a listener answers at once or does not exist."""


def forwarding(endpoints: Mapping[int, tuple[str, int]]) -> dict[int, Serve]:
    """Return a service for each port that passes everything on to a loopback address and port."""
    return {port: partial(_forward, *endpoint) for port, endpoint in endpoints.items()}


async def _forward(address: str, port: int, client: Wire) -> None:
    literal = parse_address(address)
    assert literal is not None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            server = await connect_by_system(literal, port)
    except OSError:
        # As if the command itself had found no listener there.
        client.abort()
        return
    try:
        await relay(client, server)
    finally:
        server.close()

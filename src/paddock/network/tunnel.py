"""What passes through a tunnel to a host: TLS that asks for that host, HTTP that names it, or anything else.

The server may speak first, so the proxy passes on at once what it says. The proxy looks at what the client
says first.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from msgspec.structs import replace

from paddock.model.endpoint import Endpoint
from paddock.model.host_pattern import normal_host
from paddock.network.client_hello import Unnamed, is_tls, server_name
from paddock.network.gateway import Gateway
from paddock.network.wire import Wire, relay

FIRST_LINE_LIMIT_BYTES: Final = 16 * 1024

_VERSION: Final = re.compile(rb"[ \t\v\f\r]HTTP/")
"""What the first line of a request has. Any token is a method, and servers may take other whitespace than a
space, and skip empty lines before (RFC 9112, 2.2 and 3)."""

_OLD_REQUEST: Final = re.compile(rb"(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE|CONNECT)[ \t\v\f\r]")
"""How a request without a version begins, which some servers answer."""

_BEGINNING: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+([ \t\v\f\r][^\0-\x08\x0a\x0e-\x1f\x7f]*)?)?")
"""A line that is not whole, and may become that of a request."""


async def first_words(client: Wire) -> bytes:
    """Read a client's first bytes until its protocol is clear; return nothing if it sends nothing.

    The bytes are put back.
    """
    said = b""
    try:
        while True:
            data = await client.receive()
            said += data
            await client.turn()
            if not data or not _is_undecided(said):
                return said
    finally:
        client.unread(said)


def _is_undecided(said: bytes) -> bool:
    if is_tls(said):
        return server_name(said) is Unnamed.INCOMPLETE
    line = said.lstrip(b"\r\n")
    return len(said) < FIRST_LINE_LIMIT_BYTES and _BEGINNING.fullmatch(line) is not None


def is_http(said: bytes) -> bool:
    """Return whether bytes begin like an HTTP request, or with a line that is too long to tell."""
    line, newline, _ = said.lstrip(b"\r\n").partition(b"\n")
    if not newline and len(said) >= FIRST_LINE_LIMIT_BYTES and _BEGINNING.fullmatch(line):
        return True
    return _OLD_REQUEST.match(line) is not None or _VERSION.search(line) is not None


async def is_for(gateway: Gateway, endpoint: Endpoint, said: bytes, *, has_to_be: bool = False) -> bool:
    """Return whether TLS asks for the host that the tunnel goes to, or another that is allowed.

    If it `has_to_be` that host, no other will do. A mismatch is noted.
    """
    name = server_name(said)
    match name:
        case Unnamed.NOT_TLS | Unnamed.NO_NAME:
            return True
        case Unnamed():
            await gateway.mismatch(endpoint, "nothing that can be read")
            return False
    try:
        host = normal_host(name)
    except ValueError:
        host = ""
    if host == endpoint.host:
        return True
    if host and not has_to_be and await gateway.permits(replace(endpoint, host=host)):
        return True
    await gateway.mismatch(endpoint, name)
    return False


async def speaks_first(client: Wire, server: Wire) -> bytes | None:
    """Return the client's first words; None if the server says something before, or nobody says anything."""
    listening = asyncio.ensure_future(first_words(client))
    answering = asyncio.ensure_future(server.heard())
    try:
        await asyncio.wait((listening, answering), return_when=asyncio.FIRST_COMPLETED)
        if listening.done() and not answering.done():
            return listening.result() or None
    finally:
        for task in (listening, answering):
            task.cancel()
        await asyncio.gather(listening, answering, return_exceptions=True)
    return None


async def carry(gateway: Gateway, endpoint: Endpoint, client: Wire, server: Wire) -> None:
    """Pass data both ways, if the client asks for the host that it is connected to. Return at the end."""
    server.splice(client)
    said = await first_words(client)
    if not await is_for(gateway, endpoint, said):
        client.abort()
        server.abort()
        return
    await relay(client, server)

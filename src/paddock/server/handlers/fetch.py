"""`http/request`: HTTP as this host sees it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from paddock.errors import FetchFailed, SandboxRequired
from paddock.fetch.request import FetchRequest, check_method, make_header
from paddock.protocol.call import Call
from paddock.protocol.envelope import RequestId, begin_body
from paddock.protocol.fetch import HttpRequestParams, HttpResult, ResponseHeader
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded, Then

if TYPE_CHECKING:
    from paddock.fetch.exchange import Exchange, Fetcher

SMALL_BODY_BYTES = 64 * 1024
"""A body that is read without asking for memory: 4 MiB for as many requests as run at once."""

ENCODED_BYTES = 768 * 1024
"""How much is encoded at once, in a thread; three bytes become four."""

LONGEST_TIMEOUT_MS = 24 * 60 * 60 * 1000
"""Longer ones end after a day."""


async def request(connection: ClientConnection, call: Call[HttpRequestParams]) -> HttpResult | Encoded | Then:
    """Make a request; the body comes with the answer, or after it as notifications."""
    params = call.params
    settings = connection.services.settings
    connection.services.profiles.refuse_network("http/request, which uses the network of the host")
    if settings.require_sandbox and not settings.allow_unsandboxed_http:
        raise SandboxRequired("http/request", "allow_unsandboxed_http")
    secrets = {secret.variable for secret in settings.network_secrets.values() if secret.variable}
    wanted = _fetch_request(params, secrets)
    if params.stream_response:
        return await _streamed(connection, params.request_id, wanted)
    exchange = await (await _fetcher(connection)).open(wanted)
    try:
        return await _whole(connection, call.id, exchange)
    finally:
        await exchange.aclose()


async def _fetcher(connection: ClientConnection) -> Fetcher:
    return await connection.downloads.fetcher(connection.session.lookups, connection.services.proxy_turns)


async def _streamed(connection: ClientConnection, request_id: str, wanted: FetchRequest) -> Then:
    downloads = connection.downloads
    downloads.reserve(request_id)
    try:
        exchange = await (await _fetcher(connection)).open(wanted)
    except BaseException:
        downloads.release(request_id)
        raise
    # The pieces must not come before the answer that announces them.
    return Then(_result(exchange, b""), partial(downloads.begin, request_id, exchange))


async def _whole(
    connection: ClientConnection, request_id: RequestId, exchange: Exchange
) -> HttpResult | Encoded:
    """Return the answer with all of its body. Read a large body once there is memory for it."""
    # A body too large for a message of the client is too large for one of the server.
    limit_bytes = connection.services.settings.max_message_bytes // 4 * 3
    body = bytearray()
    async with aclosing(exchange.pieces()) as pieces:
        async for piece in pieces:
            body += piece
            _refuse_too_large(len(body), limit_bytes)
            if len(body) > SMALL_BODY_BYTES:
                return await _large(connection, request_id, exchange, limit_bytes, body, pieces)
    return _result(exchange, bytes(body))


async def _large(
    connection: ClientConnection,
    request_id: RequestId,
    exchange: Exchange,
    limit_bytes: int,
    body: bytearray,
    pieces: AsyncIterator[bytes],
) -> Encoded:
    # All at once: requests that hold some and wait for more could wait for each other.
    expected_bytes = limit_bytes if exchange.size_bytes is None else exchange.size_bytes
    _refuse_too_large(expected_bytes, limit_bytes)
    answer = begin_body(request_id, _result(exchange, b""))
    grant = await connection.room_for(expected_bytes * 4 // 3)
    try:
        read_bytes = len(body)
        _refuse_too_large(read_bytes, expected_bytes)
        async for piece in pieces:
            body += piece
            read_bytes += len(piece)
            _refuse_too_large(read_bytes, expected_bytes)
            if len(body) >= ENCODED_BYTES:
                encoded, body = body[:ENCODED_BYTES], body[ENCODED_BYTES:]
                await connection.services.lanes.run(partial(answer.add, encoded))
        await connection.services.lanes.run(partial(answer.add, body))
        return Encoded(answer.finish(), grant)
    except BaseException:
        grant.release()
        raise


def _refuse_too_large(size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise FetchFailed(
            f"failed to read http/request response body: it exceeds {limit_bytes} bytes; "
            "ask for it with streamResponse"
        )


def _fetch_request(params: HttpRequestParams, secrets: Collection[str]) -> FetchRequest:
    method = check_method(params.method)
    return FetchRequest(
        method=method,
        url=params.url,
        headers=tuple(
            make_header(header.name, header.value, header.value_env_var, os.environ, secrets)
            for header in params.headers
        ),
        body=params.body_base64,
        timeout_s=None if params.timeout_ms is None else min(params.timeout_ms, LONGEST_TIMEOUT_MS) / 1000,
        follows_redirects=params.redirect_policy != "stop",
    )


def _result(exchange: Exchange, body: bytes) -> HttpResult:
    headers = [ResponseHeader(name=name, value=value) for name, value in exchange.headers]
    return HttpResult(status=exchange.status, headers=headers, body_base64=body)


HANDLERS: HandlerTable = {"http/request": request}

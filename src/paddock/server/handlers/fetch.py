"""`http/request`: HTTP as this host sees it."""

from __future__ import annotations

import os
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from paddock.config import Settings
from paddock.errors import FetchFailed, SandboxRequired
from paddock.fetch.request import FetchRequest, check_method, make_header
from paddock.protocol.call import Call
from paddock.protocol.fetch import HttpRequestParams, HttpResult, ResponseHeader
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Then

if TYPE_CHECKING:
    from paddock.fetch.exchange import Exchange

LONGEST_TIMEOUT_MS = 24 * 60 * 60 * 1000
"""Longer ones end after a day."""


async def request(connection: ClientConnection, call: Call[HttpRequestParams]) -> HttpResult | Then:
    """Make a request; the body comes with the answer, or after it as notifications."""
    params = call.params
    settings = connection.services.settings
    connection.services.profiles.refuse_network("http/request, which uses the network of the host")
    if settings.require_sandbox and not settings.allow_unsandboxed_http:
        raise SandboxRequired("http/request", "allow_unsandboxed_http")
    wanted = _plan(params)
    if params.stream_response:
        return await _streamed(connection, params.request_id, wanted)
    exchange = await connection.downloads.fetcher.open(wanted)
    try:
        return _result(exchange, await _whole_body(exchange, settings))
    finally:
        await exchange.aclose()


async def _streamed(connection: ClientConnection, request_id: str, wanted: FetchRequest) -> Then:
    downloads = connection.downloads
    downloads.reserve(request_id)
    try:
        exchange = await downloads.fetcher.open(wanted)
    except BaseException:
        downloads.release(request_id)
        raise
    # The pieces must not come before the answer that announces them.
    return Then(_result(exchange, b""), partial(downloads.begin, request_id, exchange))


async def _whole_body(exchange: Exchange, settings: Settings) -> bytes:
    # What would not fit into a message of the client does not fit into one of the server.
    limit_bytes = settings.max_message_bytes // 4 * 3
    body = bytearray()
    async with aclosing(exchange.pieces()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit_bytes:
                raise FetchFailed(
                    f"failed to read http/request response body: it exceeds {limit_bytes} bytes; "
                    "ask for it with streamResponse"
                )
    return bytes(body)


def _plan(params: HttpRequestParams) -> FetchRequest:
    method = check_method(params.method)
    return FetchRequest(
        method=method,
        url=params.url,
        headers=tuple(
            make_header(header.name, header.value, header.value_env_var, os.environ)
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

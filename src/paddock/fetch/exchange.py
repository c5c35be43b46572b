"""HTTP exchanges: a request out, the head of the answer back, then its body piece by piece.

An exchange never reads ahead of its reader: while nobody asks for the next piece, full
buffers slow the remote server down. It keeps no cookies, decompresses nothing, and uses
the proxies of the environment. It follows redirects itself: the HTTP library would first
read the whole body of each.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from paddock.errors import FetchFailed, InvalidParams
from paddock.fetch.dialer import Dialer, Resolve
from paddock.fetch.request import FetchRequest
from paddock.fetch.turn import Turn

MAX_REDIRECTS: Final = 10
"""As many as the reference follows."""

CONNECT_TIMEOUT_S: Final = 30.0
"""For the connection alone; the caller bounds the time for an answer."""

DISCARDED_BYTES: Final = 64 * 1024
"""How much of a redirect's body to read, so that the next request can use its connection."""

MAX_PIECE_BYTES: Final = 1024 * 1024
"""Largest piece handed over at once. Only a safeguard: the library reads 64 KiB at a time."""


class Exchange:
    """An answer whose head has arrived. Read its body with `pieces`, and `aclose` it in any case."""

    def __init__(self, response: httpx.Response, deadline_s: float | None) -> None:
        self._response = response
        self._deadline_s = deadline_s

    @property
    def status(self) -> int:
        """Return the status code."""
        return self._response.status_code

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Return lower-case names and values, in the order of arrival, repeats kept."""
        return [(name.decode("ascii").lower(), _text(value)) for name, value in self._response.headers.raw]

    @property
    def size_bytes(self) -> int | None:
        """Return the declared length of the body; None if no declaration counts (RFC 9112, section 6.3)."""
        headers = self._response.headers
        said = headers.get("content-length", "")
        return int(said) if said.isdecimal() and "transfer-encoding" not in headers else None

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives, in pieces of at most MAX_PIECE_BYTES. Raises FetchFailed."""
        stream = self._response.aiter_raw()
        try:
            while True:
                async with asyncio.timeout_at(self._deadline_s):
                    piece = await anext(stream, b"")
                if not piece:
                    return
                for start in range(0, len(piece), MAX_PIECE_BYTES):
                    yield piece[start : start + MAX_PIECE_BYTES]
        except (httpx.HTTPError, TimeoutError) as error:
            raise FetchFailed(f"failed to read http/request response body: {_reason(error)}") from error

    async def aclose(self) -> None:
        """Let go of the connection; drop it if its body was not read to the end."""
        await self._response.aclose()


class Fetcher:
    """Makes requests, and keeps connections alive between them. `aclose` drops those that are left.

    `resolve` looks up the names of hosts. What they send is read in turns.
    """

    def __init__(self, resolve: Resolve, turn: Turn) -> None:
        self._dialer = Dialer(resolve, turn)
        self._client: httpx.AsyncClient | None = None
        self._making = asyncio.Lock()

    async def open(self, request: FetchRequest) -> Exchange:
        """Send a request and wait for the head of the answer. Raises InvalidParams or FetchFailed."""
        url = parse_url(request.url)
        deadline_s = None
        if request.timeout_s is not None:
            deadline_s = asyncio.get_running_loop().time() + request.timeout_s
        client = await self._one_client()
        outgoing = client.build_request(
            request.method,
            url,
            headers=[(header.name.encode("ascii"), header.value) for header in request.headers],
            content=request.body,
        )
        # The library writes methods in capitals; they are case-sensitive (RFC 9110, section 9.1).
        outgoing.method = request.method
        try:
            async with asyncio.timeout_at(deadline_s):
                response = await self._send(client, outgoing, request)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            shown = url.copy_with(userinfo=b"")
            problem = f"http/request failed: error sending request for url ({shown}): {_reason(error)}"
            raise FetchFailed(problem) from error
        return Exchange(response, deadline_s)

    async def aclose(self) -> None:
        """Drop every connection."""
        if self._client is not None:
            await self._client.aclose()

    async def _one_client(self) -> httpx.AsyncClient:
        # Simultaneous requests must not make one each: all but the last would never be closed.
        async with self._making:
            if self._client is None:
                client = await asyncio.to_thread(_make_client)
                self._dialer.install(client)
                self._client = client
            return self._client

    async def _send(
        self, client: httpx.AsyncClient, outgoing: httpx.Request, request: FetchRequest
    ) -> httpx.Response:
        secrets = [header.name for header in request.headers if header.is_secret]
        for _ in range(MAX_REDIRECTS + 1):
            response = await client.send(outgoing, stream=True)
            following = response.next_request
            if following is None or not request.follows_redirects:
                return response
            await _discard(response)
            if following.url.scheme not in ("http", "https"):
                raise FetchFailed(
                    "http/request failed: redirect target uses unsupported URL scheme: "
                    f"{following.url.scheme}"
                )
            if _origin(following.url) != _origin(outgoing.url):
                for name in secrets:
                    following.headers.pop(name, None)
            outgoing = following
        raise FetchFailed(f"http/request failed: more than {MAX_REDIRECTS} redirects")


def parse_url(text: str) -> httpx.URL:
    """Parse an absolute http or https URL. Raises InvalidParams."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise InvalidParams(f"http/request url is invalid: {error}") from error
    if not url.scheme:
        raise InvalidParams(f"http/request url is invalid: {text!r} is a relative URL without a base")
    if url.scheme not in ("http", "https"):
        raise InvalidParams(f"http/request only supports http and https URLs, got {url.scheme}")
    if not url.host:
        raise InvalidParams(f"http/request url is invalid: {text!r} has an empty host")
    if url.port is not None and url.port > 65535:
        raise InvalidParams(f"http/request url is invalid: {url.port} is an invalid port number")
    return url


def _make_client() -> httpx.AsyncClient:
    # In a thread: this parses the certificates of the system, which takes a few milliseconds.
    client = httpx.AsyncClient(
        verify=ssl.create_default_context(),
        # A client's cookies must not appear in its next request: it did not put them there.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=30.0),
    )
    # Send no headers that the client did not ask for; it gets the body as it is, compressed or not.
    for name in ("accept-encoding", "connection", "user-agent"):
        del client.headers[name]
    return client


async def _discard(response: httpx.Response) -> None:
    read_bytes = 0
    async for piece in response.aiter_raw():
        read_bytes += len(piece)
        if read_bytes > DISCARDED_BYTES:
            break
    await response.aclose()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _reason(error: Exception) -> str:
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        return "timed out"
    cause: BaseException | None = error
    while cause is not None:
        # The numbers of TLS have another meaning.
        if isinstance(cause, OSError) and cause.errno and not isinstance(cause, ssl.SSLError):
            # Errors of name resolution are negative, and have a text of their own.
            return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__

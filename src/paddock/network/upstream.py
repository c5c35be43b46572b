"""Another proxy, through which all allowed connections go, as tunnels.

The profile names it, so it is trusted as far as the profile is: its address is not judged, but every host
requested through it is.
"""

from __future__ import annotations

import base64
from typing import Final
from urllib.parse import unquote, urlsplit

import h11
from msgspec import Struct

from paddock.errors import ProxyRequestError
from paddock.model.endpoint import Endpoint
from paddock.model.host_pattern import normal_host
from paddock.network.wire import Wire

ANSWER_LIMIT_BYTES: Final = 64 * 1024
"""The largest head of its answer."""


class Upstream(Struct, frozen=True):
    """The address of an upstream proxy, and our credentials there."""

    host: str
    port: int
    authorization: str | None = None

    def __str__(self) -> str:
        return f"the upstream proxy {self.host}:{self.port}"


def parse_upstream(url: str) -> Upstream:
    """Read `http://[USER:PASSWORD@]HOST:PORT`. Raises ValueError, which does not reveal the password."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or port is None or parts.path not in ("", "/"):
        raise ValueError("upstream must be http://HOST:PORT; other kinds of proxies are not supported")
    authorization = None
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        authorization = "Basic " + base64.b64encode(secret).decode()
    return Upstream(normal_host(parts.hostname), port, authorization)


def connect_request(upstream: Upstream, endpoint: Endpoint) -> bytes:
    """Return the request for a tunnel."""
    headers = [("Host", str(endpoint))]
    if upstream.authorization is not None:
        headers.append(("Proxy-Authorization", upstream.authorization))
    request = h11.Request(method="CONNECT", target=str(endpoint), headers=headers)
    return h11.Connection(h11.CLIENT).send(request) or b""


async def read_answer(wire: Wire) -> None:
    """Read the answer to it; what comes after is left to be received. Raises ProxyRequestError."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = await wire.receive()
        head += data
        if not data or len(head) > ANSWER_LIMIT_BYTES:
            raise ProxyRequestError("it gives no answer")
    head, _, rest = head.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ProxyRequestError("it does not speak HTTP")
    if words[1] != b"200":
        raise ProxyRequestError(f"it answers {words[1].decode()}")
    wire.unread(rest)

"""Requests to an HTTP proxy: finds their target, and what to forward. No I/O.

h11 reads and writes the messages; this decides which of them make sense. Nothing is forwarded as it came: a
message is read to its parts and written anew, so two readers can't disagree about where it ends. Chunks that
are written as h11 writes them need no such thing (`open_body`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import h11
import msgspec
from h11._receivebuffer import ReceiveBuffer
from msgspec import Struct

from paddock.errors import ProxyRequestError
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.host_pattern import normal_host, parse_port, split_port
from paddock.model.network_secret import Scheme
from paddock.network.policy import Reason, Ruling

Headers = list[tuple[bytes, bytes]]

REASON_HEADER: Final = b"x-proxy-error"

_REASON_WORDS: Final = {
    Reason.NOT_ALLOWED: "blocked-by-allowlist",
    Reason.DENIED: "blocked-by-denylist",
}
"""The reference's names for them; it calls the others a policy."""

_HOP_BY_HOP: Final = frozenset(
    (
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"),
    )
)
"""Headers for the next receiver alone (RFC 9110, section 7.6.1). `transfer-encoding` is h11's to write."""


HEAD_LIMIT_BYTES: Final = 64 * 1024
"""The largest head of a request or response; servers take 8 to 48 KiB."""

LINES_LIMIT: Final = 256
"""The most lines of a head, or behind a body; servers take about 100. To read and write one takes 10 µs, and
the smallest have three bytes."""


class _FewLines(ReceiveBuffer):
    def maybe_extract_lines(self) -> list[bytearray] | None:
        lines = super().maybe_extract_lines()
        if lines is not None and len(lines) > LINES_LIMIT:
            raise h11.RemoteProtocolError(f"there are more than {LINES_LIMIT} lines of headers", 431)
        return lines


class Messages(h11.Connection):
    """One side of a connection, which reads heads within the limits."""

    def __init__(self, our_role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        super().__init__(our_role, max_incomplete_event_size=HEAD_LIMIT_BYTES)
        self._receive_buffer = _FewLines()


class HttpTarget(Struct, frozen=True):
    """The target of a request, and what it asks for."""

    endpoint: Endpoint
    path: bytes
    """Empty for a tunnel."""


def parse_target(request: h11.Request, tunnel: Endpoint | None = None) -> HttpTarget:
    """Return the target of a request. Raises ProxyRequestError for one that makes no sense.

    Inside of a `tunnel` requests are written as for the server itself.
    """
    _refuse_two_lengths(request)
    try:
        text = request.target.decode("ascii")
        if tunnel is not None and text.startswith("/"):
            return HttpTarget(tunnel, request.target)
        if request.method == b"CONNECT":
            return HttpTarget(_authority(text, NetworkProtocol.HTTPS_CONNECT), b"")
        return _absolute(text)
    except ValueError as error:
        raise ProxyRequestError(str(error)) from error


def _authority(text: str, protocol: NetworkProtocol, port: int | None = None) -> Endpoint:
    host, port_text = split_port(text)
    if port_text is None and port is None:
        raise ValueError(f"the target {text[:300]!r} has no port")
    return Endpoint(normal_host(host), parse_port(port_text) if port_text else port or 0, protocol)


def _absolute(text: str) -> HttpTarget:
    parts = urlsplit(text)
    if not parts.netloc or not parts.scheme:
        raise ValueError(
            f"the target {text[:300]!r} is not a URL; this is a proxy, and serves nothing itself"
        )
    if parts.scheme != "http":
        raise ValueError(f"the scheme {parts.scheme!r} is not proxied; use http, or CONNECT for others")
    if "@" in parts.netloc:
        raise ValueError("the target has a user in it; send it in the header Authorization")
    path = parts.path or "/"
    return HttpTarget(
        _authority(parts.netloc, NetworkProtocol.HTTP, 80),
        f"{path}?{parts.query}".encode() if parts.query else path.encode(),
    )


def _refuse_two_lengths(request: h11.Request) -> None:
    names = {name for name, _ in request.headers}
    if b"content-length" in names and b"transfer-encoding" in names:
        # One receiver would believe the one, the next the other (RFC 9112, section 6.1).
        raise ProxyRequestError("the request has both Content-Length and Transfer-Encoding")


def named_host(request: h11.Request) -> tuple[str, int] | None:
    """Return the host and port that the header Host names; None without one. Raises ProxyRequestError."""
    for name, value in request.headers:
        if name == b"host":
            try:
                found = _authority(value.decode("ascii").strip(), NetworkProtocol.HTTP, 80)
            except ValueError as error:
                raise ProxyRequestError(f"the header Host makes no sense: {error}") from error
            return found.host, found.port
    return None


def forwarded_request(
    request: h11.Request, target: HttpTarget, scheme: Scheme, secrets: Mapping[bytes, bytes]
) -> h11.Request:
    """Return the request as its server gets it: the headers of `secrets` take the place of its own."""
    host = str(target.endpoint).removesuffix(f":{scheme.port}").encode()
    passed = _passed_on(request.headers.raw_items(), {b"host"})
    # Some servers read an underscore as a dash, and of two headers take either.
    replaced = set(map(_dashed, secrets))
    passed = [(name, value) for name, value in passed if _dashed(name) not in replaced]
    headers: Headers = [(b"Host", host), *passed, *secrets.items()]
    if _wants_upgrade(request.headers):
        headers += [(b"Connection", b"upgrade")]
        headers += [(name, value) for name, value in request.headers if name == b"upgrade"]
    return h11.Request(method=request.method, target=target.path, headers=headers)


def _dashed(name: bytes) -> bytes:
    return name.lower().replace(b"_", b"-")


LARGE_BODY_BYTES: Final = 1 << 20
"""The size from which a body is worth a connection of its own."""


BODILESS: Final = (204, 304)
"""The status of answers that never have a body."""


def large_body_bytes(message: h11.Request | h11.Response, *, is_for_head: bool = False) -> int | None:
    """Return the length of a message's body, if it is known and large."""
    if is_for_head or (isinstance(message, h11.Response) and message.status_code in BODILESS):
        return None
    names = {name: value for name, value in message.headers if name in FRAMING}
    if b"transfer-encoding" in names or b"content-length" not in names:
        return None
    # h11 has made sure that it is a number, and the only one.
    size = int(names[b"content-length"])
    return size if size >= LARGE_BODY_BYTES else None


FRAMING: Final = (b"content-length", b"transfer-encoding")


class BodyEnd(Enum):
    """How a body ends whose length nobody says."""

    LAST_CHUNK = auto()
    CONNECTION = auto()


def body_end(message: h11.Request | h11.Response, *, is_for_head: bool = False) -> BodyEnd | None:
    """Return how a message's body ends; None if it has none, or one of a known length."""
    if is_for_head or (isinstance(message, h11.Response) and message.status_code in BODILESS):
        return None
    names = {name for name, _ in message.headers}
    if b"transfer-encoding" in names:
        # h11 knows no other encoding, and refuses the message.
        return BodyEnd.LAST_CHUNK
    is_request = isinstance(message, h11.Request)
    return None if is_request or b"content-length" in names else BodyEnd.CONNECTION


def forwarded_response(
    response: h11.Response | h11.InformationalResponse, *, is_last: bool = False
) -> h11.Response | h11.InformationalResponse:
    """Return a response as the client gets it, on a connection that may end with it."""
    headers = _passed_on(response.headers.raw_items(), set())
    if is_last:
        headers.append((b"Connection", b"close"))
    if isinstance(response, h11.Response):
        return h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)
    if response.status_code == SWITCHING:
        headers += [(b"Connection", b"upgrade")]
        headers += [(name, value) for name, value in response.headers if name == b"upgrade"]
    return h11.InformationalResponse(
        status_code=response.status_code, headers=headers, reason=response.reason
    )


SWITCHING: Final = 101


def _wants_upgrade(headers: h11._headers.Headers) -> bool:
    return b"upgrade" in _connection_words(list(headers))


def _connection_words(headers: Headers) -> set[bytes]:
    return {
        word.strip().lower()
        for name, value in headers
        if name.lower() == b"connection"
        for word in value.split(b",")
    }


def _passed_on(headers: Headers, without: set[bytes]) -> Headers:
    # What tells where the body ends stays, whatever Connection says: a large body is passed on as it
    # comes, and its receiver would take it for further requests.
    dropped = (_HOP_BY_HOP | without | _connection_words(headers)).difference(FRAMING)
    return [(name, value) for name, value in headers if name.lower() not in dropped]


class _Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that a command reads when it may not reach a host."""

    host: str
    port: int
    protocol: NetworkProtocol
    reason: Reason
    rule: str
    message: str
    status: str = "blocked"
    decision: str = "deny"


def blocked_body(endpoint: Endpoint, ruling: Ruling) -> bytes:
    """Return the body of the answer to a blocked request, as JSON that people can read."""
    message = f"Paddock blocks {endpoint}: {ruling.rule}"
    if ruling.message:
        message += f" ({ruling.message})"
    body = _Blocked(
        host=endpoint.host,
        port=endpoint.port,
        protocol=endpoint.protocol,
        reason=ruling.reason,
        rule=ruling.rule,
        message=message,
    )
    return msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"


def blocked_response(endpoint: Endpoint, ruling: Ruling) -> tuple[h11.Response, bytes]:
    """Return the head and the body of the answer to a blocked request."""
    word = _REASON_WORDS.get(ruling.reason, "blocked-by-policy")
    return own_response(403, blocked_body(endpoint, ruling), [(REASON_HEADER, word.encode())])


def own_response(status: int, body: bytes, headers: Headers | None = None) -> tuple[h11.Response, bytes]:
    """Return an answer of the proxy itself. It is the last on its connection."""
    kind = b"application/json" if body.startswith(b"{") else b"text/plain; charset=utf-8"
    fixed = [
        (b"Content-Type", kind),
        (b"Content-Length", str(len(body)).encode()),
        (b"Connection", b"close"),
    ]
    phrase = HTTPStatus(status).phrase.encode()
    return h11.Response(status_code=status, headers=[*fixed, *(headers or [])], reason=phrase), body

"""The text of the opening handshake of a websocket (RFC 6455, 4), as either side reads and writes it.

It reads strictly: a head in HTTP/1.1, lines that end in CR LF, header lines that are one
line each. Anything else raises `ProtocolViolation`, whose text quotes no header: headers
hold credentials. Only GET without a body, only version 13, no extensions and no
subprotocols. It does not know the connection.
"""

from __future__ import annotations

import base64
import hashlib
import string
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from paddock.errors import MessageTooLarge, ProtocolViolation
from paddock.transport.http import HEAD_LINES, Headers, HttpRequest, HttpResponse

HEAD_LIMIT_BYTES: Final = 16 * 1024
"""Limit for a head. A bearer token can be several KiB long; common servers accept 8 KiB in all."""

REFUSAL_LIMIT_BYTES: Final = 4 * 1024
"""How much to keep of the body of a refusal: some paragraphs of text; the rest of a page helps nobody."""

OWN_HEADERS: Final = frozenset(
    {
        "connection",
        "sec-websocket-extensions",
        "sec-websocket-key",
        "sec-websocket-protocol",
        "sec-websocket-version",
        "upgrade",
    }
)
"""Headers that this module writes into a client's request, in lower case; callers may not."""

_VERSION: Final = "13"
_KEY_BYTES: Final = 16
_ACCEPT_GUID: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HTTP: Final = b"HTTP/"
_END: Final = b"\r\n\r\n"
_TOKEN_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")
_VISIBLE_CHARACTERS: Final = frozenset(map(chr, range(0x21, 0x7F)))
# CR, LF and NUL above all; a tab is a kind of space.
_CONTROL_CHARACTERS: Final = frozenset(map(chr, (*range(0x20), 0x7F))) - {"\t"}
# A status line that is none may be anything, of any length.
_QUOTED_CHARACTERS: Final = 80


class AnswerHead(Struct, frozen=True):
    """The server's answer to the request for an upgrade."""

    status: int
    headers: Headers


# ---------------------------------------------------------------- both sides


def accept_key(key: str) -> str:
    """Return what a server answers to a `Sec-WebSocket-Key` (RFC 6455, 4.2.2)."""
    # SHA-1 shows here that the server has read the key; it protects nothing.
    digest = hashlib.sha1((key + _ACCEPT_GUID).encode("latin-1"), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def is_token(text: str) -> bool:
    """Return whether a text can be the name of a header (RFC 9110, 5.6.2)."""
    return bool(text) and _TOKEN_CHARACTERS.issuperset(text)


# ---------------------------------------------------------------- the server's side


def split_request(received: bytes | bytearray) -> tuple[bytes, bytes] | None:
    """Return the head, without its empty line, and the bytes after it; None until the head is complete.

    Raises `MessageTooLarge` or `ProtocolViolation` as soon as it can't become one.
    """
    # A peer that speaks TLS never sends a line, and waits for what we say to its first bytes.
    if received and chr(received[0]) not in _TOKEN_CHARACTERS:
        raise ProtocolViolation("this is not HTTP; this port does not take TLS")
    return _split_head(received)


def read_request(head: bytes) -> HttpRequest:
    """Read a request, which need not ask for an upgrade. Raises `ProtocolViolation`."""
    line, headers = _read_head(head)
    match line.split(" "):
        case ["GET", target, "HTTP/1.1"] if _is_visible(target):
            pass
        case _:
            raise ProtocolViolation("the request line is not GET, a target and HTTP/1.1")
    # RFC 9112, 3.2: with two of them, a proxy and this server could each believe another one.
    if len(headers.all("Host")) != 1:
        raise ProtocolViolation("there must be one Host header")
    if "Transfer-Encoding" in headers or any(length != "0" for length in headers.all("Content-Length")):
        raise ProtocolViolation("the request announces a body")
    return HttpRequest("GET", target.partition("?")[0], headers)


def switch_protocols(request: HttpRequest) -> bytes:
    """Return the answer that makes the connection a websocket.

    Raises `ProtocolViolation` if the request does not properly ask for one (RFC 6455, 4.2.1).
    """
    headers = request.headers
    if "websocket" not in headers.tokens("Upgrade") or "upgrade" not in headers.tokens("Connection"):
        raise ProtocolViolation("this is a websocket: Upgrade must be websocket, and Connection Upgrade")
    if headers.get("Sec-WebSocket-Version") != _VERSION:
        raise ProtocolViolation(f"Sec-WebSocket-Version must be {_VERSION}")
    key = headers.get("Sec-WebSocket-Key", "")
    if not _is_key(key):
        raise ProtocolViolation("Sec-WebSocket-Key must be 16 bytes in base64")
    return _write_head(
        _status_line(HTTPStatus.SWITCHING_PROTOCOLS),
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": accept_key(key)},
    )


def bad_request(violation: ProtocolViolation) -> HttpResponse:
    """Make the answer to a request that can't be served; it names the supported version (RFC 6455, 4.4)."""
    body = f"{violation}\n".encode()
    return HttpResponse(status=400, body=body, headers={"Sec-WebSocket-Version": _VERSION})


def write_response(response: HttpResponse) -> bytes:
    """Return a whole answer, after which the connection is closed."""
    headers = dict(response.headers)
    if response.body:
        headers["Content-Type"] = response.content_type
    headers |= {"Content-Length": str(len(response.body)), "Connection": "close"}
    return _write_head(_status_line(HTTPStatus(response.status)), headers) + response.body


# ---------------------------------------------------------------- the client's side


def write_request(host: str, target: str, key: str, headers: Mapping[str, str]) -> bytes:
    """Return the request for an upgrade.

    `key` is 16 random bytes in base64. Of `headers`, in whose names none of `OWN_HEADERS` may be, a
    Host replaces `host`. All of them must be proper names and values already.
    """
    own = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": _VERSION,
        "Sec-WebSocket-Key": key,
    }
    if "Host" not in Headers(headers.items()):
        own = {"Host": host, **own}
    return _write_head(f"GET {target} HTTP/1.1", {**own, **headers})


def split_answer(received: bytes | bytearray) -> tuple[bytes, bytes] | None:
    """Return the head of an answer, as `split_request` does that of a request."""
    # Servers of other protocols send a line, and wait for ours.
    if received[: len(_HTTP)] != _HTTP[: len(received)]:
        raise _not_http(received.partition(b"\r\n")[0].decode("latin-1"))
    return _split_head(received)


def read_answer(head: bytes) -> AnswerHead:
    """Read the answer to a request, whatever it says. Raises `ProtocolViolation`."""
    line, headers = _read_head(head)
    match line.split(" ", 2):
        case ["HTTP/1.1", status, *_] if len(status) == 3 and _is_number(status):
            return AnswerHead(int(status), headers)
        case _:
            raise _not_http(line)


def check_switch(answer: AnswerHead, key: str) -> None:
    """Check what a server says with a 101 to the request with this key (RFC 6455, 4.1).

    Raises `ProtocolViolation` if the connection did not become a websocket as it was asked for.
    """
    headers = answer.headers
    if headers.tokens("Upgrade") != {"websocket"} or "upgrade" not in headers.tokens("Connection"):
        raise ProtocolViolation("the server did not upgrade to a websocket")
    if headers.get("Sec-WebSocket-Accept") != accept_key(key):
        raise ProtocolViolation("the server did not upgrade this request: its Sec-WebSocket-Accept is wrong")
    for name in ("Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"):
        if name in headers:
            raise ProtocolViolation(f"the server did not upgrade as asked: nobody offered a {name}")


def refusal_bytes(answer: AnswerHead) -> int:
    """Return how much of the body of a refusal to wait for; it may have less, and end with the connection.

    Waits for nothing of a body in chunks: only a decoder knows its length.
    """
    has_none = answer.status < 200 or answer.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
    if has_none or "Transfer-Encoding" in answer.headers:
        return 0
    length = answer.headers.get("Content-Length", "")
    if not _is_number(length) or len(length) > len(str(REFUSAL_LIMIT_BYTES)):
        return REFUSAL_LIMIT_BYTES
    return min(int(length), REFUSAL_LIMIT_BYTES)


# ---------------------------------------------------------------- lines


def _split_head(received: bytes | bytearray) -> tuple[bytes, bytes] | None:
    end = received.find(_END, 0, HEAD_LIMIT_BYTES)
    if end >= 0:
        return bytes(received[:end]), bytes(received[end + len(_END) :])
    if len(received) >= HEAD_LIMIT_BYTES:
        raise MessageTooLarge(HEAD_LIMIT_BYTES)
    return None


def _read_head(head: bytes) -> tuple[str, Headers]:
    lines = head.count(b"\r\n") + 1
    if lines > HEAD_LINES:
        raise ProtocolViolation(f"the head has {lines} lines; at most {HEAD_LINES} are read")
    first, *fields = head.decode("latin-1").split("\r\n")
    if not _CONTROL_CHARACTERS.isdisjoint(first):
        raise ProtocolViolation("the first line holds control characters")
    return first, Headers(_read_field(line) for line in fields)


def _read_field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    # Neither a space before the colon nor one at the start of a line, which would continue the line
    # before, is part of a token (RFC 9112, 5.1 and 5.2).
    if not colon or not is_token(name):
        raise ProtocolViolation("a header line is not a name, a colon and a value")
    value = value.strip(" \t")
    if not _CONTROL_CHARACTERS.isdisjoint(value):
        raise ProtocolViolation("a header holds control characters")
    return name, value


def _write_head(first: str, headers: Mapping[str, str]) -> bytes:
    lines = (first, *(f"{name}: {value}" for name, value in headers.items()), "", "")
    return "\r\n".join(lines).encode("latin-1")


def _not_http(line: str) -> ProtocolViolation:
    return ProtocolViolation(f"the server does not speak HTTP/1.1: {line[:_QUOTED_CHARACTERS]!r}")


def _status_line(status: HTTPStatus) -> str:
    return f"HTTP/1.1 {status.value} {status.phrase}"


def _is_visible(text: str) -> bool:
    return bool(text) and _VISIBLE_CHARACTERS.issuperset(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except ValueError:
        return False

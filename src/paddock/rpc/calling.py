"""The client's side of one connection, without I/O.

`request` gives the bytes of a request and remembers its id; feed every message
that arrives to `receive`, which returns what it answers or tells. An answer to
nothing is ignored: it may belong to a request whose caller has given up. Requests
of the server are ignored too: none is made of a client that did not ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, Raw, json

from paddock.errors import ProtocolViolation, RequestError
from paddock.protocol.bulk import BULK_BYTES
from paddock.protocol.codec import CodecLimits
from paddock.protocol.codes import error_for
from paddock.protocol.envelope import (
    UNREADABLE_ID,
    RequestId,
    read_server_message,
    write_notification,
    write_request,
)
from paddock.protocol.methods import INITIALIZED, METHODS, NOTIFICATIONS, OPTIONAL_NOTIFICATIONS
from paddock.protocol.plain_message import scan, with_base64
from paddock.protocol.structure import Params, Result

_RESULTS: dict[str, json.Decoder[Any]] = {
    name: json.Decoder(method.result) for name, method in METHODS.items() if method.result is not None
}
_NOTIFICATIONS: dict[str, json.Decoder[Any]] = {
    name: json.Decoder(kind) for name, kind in (NOTIFICATIONS | OPTIONAL_NOTIFICATIONS).items()
}

_LIMITS = CodecLimits()
"""Of a message that is taken apart: a larger one is read all the same."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request succeeded."""

    id: RequestId
    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """A request was refused or failed."""

    id: RequestId
    error: RequestError


@dataclass(frozen=True, slots=True)
class Told:
    """The server tells something."""

    method: str
    params: Result


Event = Answered | Failed | Told


class CallingConnection:
    """Request ids and the matching of answers."""

    def __init__(self) -> None:
        self._next_id = 1
        self._methods: dict[RequestId, str] = {}

    def request(self, method: str, params: Params | None) -> tuple[RequestId, bytes]:
        """The id and the bytes of a new request. Raises UnicodeEncodeError for a text that is not UTF-8."""
        request_id = self._next_id
        message = write_request(request_id, method, params)
        self._next_id += 1
        self._methods[request_id] = method
        return request_id, message

    def initialized(self) -> bytes:
        """The bytes of the notification that completes the handshake."""
        return write_notification(INITIALIZED, {})

    def forget(self, request_id: RequestId) -> None:
        """The caller has given up; the answer, if it comes, is ignored."""
        self._methods.pop(request_id, None)

    def receive(self, data: bytes) -> Event | None:
        """What one message means, or None for one that concerns nobody.

        Raises MalformedMessage or ProtocolViolation when it can't be understood:
        the connection is of no use then.
        """
        if len(data) > BULK_BYTES and (event := self._receive_bulk(data)) is not None:
            return event
        message = read_server_message(data)
        if message.method is not None:
            decoder = _NOTIFICATIONS.get(message.method)
            if decoder is None or message.id is not None:
                return None
            return Told(message.method, _decode(decoder, message.params, message.method))
        if message.id is None:
            raise ProtocolViolation("the server sent a message without method and id")
        if message.id == UNREADABLE_ID and message.error is not None:
            # Some request will never be answered, and nobody can say which.
            raise ProtocolViolation(f"the server could not read a request: {message.error.message}")
        method = self._methods.pop(message.id, None)
        if method is None:
            return None
        if message.error is not None:
            error = message.error
            return Failed(message.id, error_for(error.code, error.message, error.data))
        return Answered(message.id, _decode(_RESULTS[method], message.result, method))

    def _receive_bulk(self, data: bytes) -> Event | None:
        """Give what a message means that is mostly base64; None leaves it to the ordinary way."""
        found = scan(data, _LIMITS.max_values, _LIMITS.max_depth)
        if found is None:
            return None
        request_id, method, body, left_out = found
        decoder = self._decoder(request_id, method)
        if decoder is None or body is None or left_out is None:
            return None
        try:
            value = with_base64(decoder.decode(body), left_out, data)
        except (DecodeError, ValueError):
            return None
        if request_id is None:
            assert method is not None
            return Told(method, value)
        del self._methods[request_id]
        return Answered(request_id, value)

    def _decoder(self, request_id: RequestId | None, method: str | None) -> json.Decoder[Any] | None:
        """Give what reads a notification, or the answer to a request, if there is such a one."""
        if method is not None:
            return _NOTIFICATIONS.get(method) if request_id is None else None
        asked = self._methods.get(request_id) if request_id is not None else None
        return _RESULTS[asked] if asked is not None else None


def _decode(decoder: json.Decoder[Any], raw: Raw, name: str) -> Any:
    try:
        return decoder.decode(raw)
    except DecodeError as error:
        raise ProtocolViolation(f"the server's {name} can't be understood: {error}") from error

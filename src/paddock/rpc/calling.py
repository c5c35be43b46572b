"""The client's side of one connection, without I/O.

`request` gives the bytes of a request and remembers its id; feed every message
that arrives to `receive`, which returns what it answers or tells. An answer to
nothing is ignored: it may belong to a request whose caller has given up. Requests
of the server are ignored too: none is made of a client that did not ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import DecodeError, Raw, convert, json

from paddock.errors import ProtocolViolation, RequestError
from paddock.protocol import bulk
from paddock.protocol.codes import error_for
from paddock.protocol.envelope import (
    UNREADABLE_ID,
    RequestId,
    read_server_message,
    write_notification,
    write_request,
)
from paddock.protocol.methods import INITIALIZED, METHODS, NOTIFICATIONS, OPTIONAL_NOTIFICATIONS
from paddock.protocol.structure import Params, Result

_RESULTS: dict[str, json.Decoder[Any]] = {
    name: json.Decoder(method.result) for name, method in METHODS.items() if method.result is not None
}
_NOTIFICATIONS: dict[str, json.Decoder[Any]] = {
    name: json.Decoder(kind) for name, kind in (NOTIFICATIONS | OPTIONAL_NOTIFICATIONS).items()
}


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
        lifted = bulk.lift(data) if len(data) > bulk.BULK_BYTES else None
        message = read_server_message(data if lifted is None else lifted.rest)
        if message.method is not None:
            decoder = _NOTIFICATIONS.get(message.method)
            if decoder is None or message.id is not None:
                return None
            return Told(message.method, _decode(decoder, message.params, message.method, lifted))
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
        return Answered(message.id, _decode(_RESULTS[method], message.result, method, lifted))


def _decode(decoder: json.Decoder[Any], raw: Raw, name: str, lifted: bulk.Lifted | None) -> Any:
    try:
        if lifted is None:
            return decoder.decode(raw)
        value = json.decode(raw)
        if lifted.put_into(value):
            return convert(value, decoder.type)
        return decoder.decode(lifted.restore(bytes(raw)))
    except DecodeError as error:
        raise ProtocolViolation(f"the server's {name} can't be understood: {error}") from error

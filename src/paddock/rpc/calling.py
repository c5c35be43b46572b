"""The client's side of one connection, without I/O.

`request` returns the bytes of a request and remembers its id. Feed every message
that arrives to `receive`, which returns its meaning as an event. It ignores an
answer with an unknown id: the caller of that request may have given up. It also
ignores requests of the server that are not in the table: a server sends them only to a
client that asked for them. Reply to any other with `answer` or `refuse` of its id.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import DecodeError, Raw, Struct, json

from paddock.errors import InvalidParams, ProtocolViolation, RequestError
from paddock.protocol.bulk import BULK_BYTES
from paddock.protocol.codec import CodecLimits
from paddock.protocol.codes import error_for
from paddock.protocol.envelope import (
    UNREADABLE_ID,
    RequestId,
    read_server_message,
    write_error,
    write_notification,
    write_request,
    write_result,
)
from paddock.protocol.methods import (
    INITIALIZED,
    METHODS,
    NOTIFICATIONS,
    OPTIONAL_NOTIFICATIONS,
    SERVER_REQUESTS,
)
from paddock.protocol.plain_message import scan, with_base64
from paddock.protocol.question import QuestionParams
from paddock.protocol.structure import Params, Result

_LIMITS = CodecLimits()
"""Limits of the fast path for bulk messages; the ordinary way reads a larger one."""


class Answered(Struct, frozen=True):
    """A request succeeded."""

    id: RequestId
    result: Result


class Failed(Struct, frozen=True):
    """A request was refused or failed."""

    id: RequestId
    error: RequestError


class Told(Struct, frozen=True):
    """The server sent a notification."""

    method: str
    params: Result


class Asked(Struct, frozen=True):
    """The server sent a request, and waits for `answer` or `refuse`."""

    id: RequestId
    method: str
    params: QuestionParams


class Unanswerable(Struct, frozen=True):
    """The server sent a request that this client can't understand: send these bytes."""

    reply: bytes
    problem: str


Event = Answered | Failed | Told | Asked | Unanswerable


class CallingConnection:
    """Request ids and the matching of answers."""

    def __init__(self) -> None:
        self._next_id = 1
        self._methods: dict[RequestId, str] = {}

    def request(self, method: str, params: Params | None) -> tuple[RequestId, bytes]:
        """Return the id and the bytes of a new request.

        Raises UnicodeEncodeError for a text that is not UTF-8.
        """
        request_id = self._next_id
        message = write_request(request_id, method, params)
        self._next_id += 1
        self._methods[request_id] = method
        return request_id, message

    def initialized(self) -> bytes:
        """Return the bytes of the notification that completes the handshake."""
        return write_notification(INITIALIZED, {})

    def forget(self, request_id: RequestId) -> None:
        """Forget a request that its caller has given up. `receive` ignores a late answer."""
        self._methods.pop(request_id, None)

    def receive(self, data: bytes) -> Event | None:
        """Return what one message means; None for one to ignore.

        Raises MalformedMessage or ProtocolViolation for a message that makes no sense:
        drop the connection then.
        """
        if len(data) > BULK_BYTES and (event := self._receive_bulk(data)) is not None:
            return event
        message = read_server_message(data)
        if message.method is not None:
            if message.id is not None:
                return _asked(message.id, message.method, message.params)
            decoder = _decoder_of_notification(message.method)
            if decoder is None:
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
        return Answered(message.id, _decode(_decoder_of(METHODS[method].result), message.result, method))

    def _receive_bulk(self, data: bytes) -> Event | None:
        """Return what a message of mostly base64 means; None leaves it to the ordinary way."""
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
        """Return the decoder of a notification, or of the answer to a request; None if unknown."""
        if method is not None:
            return _decoder_of_notification(method) if request_id is None else None
        asked = self._methods.get(request_id) if request_id is not None else None
        return None if asked is None else _decoder_of(METHODS[asked].result)


def answer(request_id: RequestId, result: Params) -> bytes:
    """Write the answer to a request of the server. Raises UnicodeEncodeError."""
    return write_result(request_id, result)


def refuse(request_id: RequestId, error: RequestError) -> bytes:
    """Write an error as the answer, with the reason."""
    return write_error(request_id, error)


def _asked(request_id: RequestId, method: str, params: Raw) -> Asked | Unanswerable | None:
    request = SERVER_REQUESTS.get(method)
    if request is None:
        return None
    try:
        return Asked(request_id, method, _decoder_of(request.params).decode(params))
    except DecodeError as error:
        # Not the end of the connection: the same question would come on the next one.
        problem = f"params: {error}"
        return Unanswerable(refuse(request_id, InvalidParams(problem)), f"{method}: {problem}")


@cache
def _decoder_of(kind: Any) -> json.Decoder[Any]:
    """Return the decoder of a type, made on first use: making them all takes 7 ms."""
    return json.Decoder(kind)


def _decoder_of_notification(name: str) -> json.Decoder[Any] | None:
    decoder = _notification_decoders.get(name)
    if decoder is None:
        kind = NOTIFICATIONS.get(name) or OPTIONAL_NOTIFICATIONS.get(name)
        if kind is None:
            return None
        decoder = _notification_decoders[name] = _decoder_of(kind)
    return decoder


_notification_decoders: dict[str, json.Decoder[Any]] = {}
"""Of notifications that have come: there is one for each chunk of output."""


def _decode(decoder: json.Decoder[Any], raw: Raw, name: str) -> Any:
    try:
        return decoder.decode(raw)
    except DecodeError as error:
        raise ProtocolViolation(f"the server's {name} can't be understood: {error}") from error

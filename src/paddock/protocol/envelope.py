"""The JSON-RPC envelope, with the `jsonrpc` member neither required nor sent.

A message with `method` and `id` is a request, with `method` alone a
notification, with `result` and no error a response. The reader takes anything else for
an error response, and checks that it is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import DecodeError, Raw, Struct, json, structs

from paddock.errors import MalformedMessage, RequestError
from paddock.excerpt import excerpt
from paddock.protocol import bulk
from paddock.protocol.bound import MAX_NAME_CHARS
from paddock.protocol.codec import CodecLimits, read_json, write_json
from paddock.protocol.codes import INVALID_REQUEST, code_of, data_of
from paddock.protocol.long_list import LongList
from paddock.protocol.process_event import OutputEvent

if TYPE_CHECKING:
    from paddock.protocol.fetch import HttpResult
    from paddock.protocol.fs import ReadBlockResult

RequestId = int | str

UNREADABLE_ID = -1
"""The id of an error that answers a message with an unreadable id, or without one."""

MAX_ERROR_CHARS = 16 * 1024
"""Most characters of an error's text: two of the longest paths, and words around them."""

_MIN_ID, _MAX_ID = -(2**63), 2**63 - 1


class Request(Struct, frozen=True):
    """A message that wants an answer."""

    id: RequestId
    method: str
    params: Any


class Notification(Struct, frozen=True):
    """A message that wants no answer."""

    method: str
    params: Any


class Response(Struct, frozen=True):
    """An answer, good or bad, to a request of this side."""

    id: RequestId
    result: Any = None
    problem: str | None = None
    """The text of a bad answer."""


Message = Request | Notification | Response


def read_message(data: bytes, limits: CodecLimits) -> Message:
    """Read one message of a client. Raises MalformedMessage; the connection may go on after that."""
    value = read_json(data, limits)
    if type(value) is not dict:
        raise MalformedMessage("expected a JSON-RPC object; batches and bare values are not understood")
    if "method" in value:
        return _read_call(value)
    if "result" in value and value.get("error") is None:
        return Response(_read_id(value), value["result"])
    if _is_error(value.get("error")):
        return Response(_read_id(value), problem=value["error"]["message"])
    raise MalformedMessage(
        "the object is neither a request nor a response: it has no method, result or error"
    )


def _read_call(value: dict[str, Any]) -> Request | Notification:
    method = value["method"]
    if type(method) is not str:
        raise MalformedMessage("the method is not a string")
    params = value.get("params")
    if "id" not in value:
        return Notification(method, params)
    request_id = _read_id(value)
    if value.get("trace") is not None:
        _check_trace(value["trace"])
    return Request(request_id, method, params)


def _check_trace(trace: Any) -> None:
    """Check a W3C trace context: an object of two optional strings."""
    if type(trace) is not dict:
        raise MalformedMessage("trace is not an object")
    for name in ("traceparent", "tracestate"):
        if not isinstance(trace.get(name), str | None):
            raise MalformedMessage(f"trace.{name} is not a string")


def _is_error(error: Any) -> bool:
    return type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str


def _read_id(value: dict[str, Any]) -> RequestId:
    found = value.get("id")
    if type(found) is int and _MIN_ID <= found <= _MAX_ID:
        return found
    if type(found) is str:
        if len(found) <= MAX_NAME_CHARS:
            return found
        raise MalformedMessage(f"the id has {len(found)} characters; it may have {MAX_NAME_CHARS}")
    raise MalformedMessage("the id is neither a string nor a 64-bit integer")


class _ResultEnvelope(Struct, frozen=True):
    id: RequestId
    result: Any


class _ErrorBody(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class _ErrorEnvelope(Struct, frozen=True):
    error: _ErrorBody
    id: RequestId


class _RequestEnvelope(Struct, frozen=True, omit_defaults=True):
    id: RequestId
    method: str
    params: Any = None


class _NotificationEnvelope(Struct, frozen=True):
    method: str
    params: Any


def write_request(request_id: RequestId, method: str, params: Any) -> bytes:
    """Write a request; leave parameters of None out."""
    chunk: bytes = params.chunk if getattr(params, "HAS_CHUNK", False) else b""
    if len(chunk) < bulk.BULK_BYTES:
        return write_json(_RequestEnvelope(request_id, method, params))
    frame = write_json(_RequestEnvelope(request_id, method, structs.replace(params, chunk=b"")))
    return bulk.splice(frame, chunk)


def write_notification(method: str, params: Any) -> bytes:
    """Write a notification."""
    if type(params) is OutputEvent and len(params.chunk) >= bulk.BULK_BYTES:
        frame = write_json(_NotificationEnvelope(method, structs.replace(params, chunk=b"")))
        return bulk.splice(frame, params.chunk)
    return write_json(_NotificationEnvelope(method, params))


def write_result(request_id: RequestId, result: Any) -> bytes:
    """Write a good answer."""
    return write_json(_ResultEnvelope(request_id, result))


def write_block_result(request_id: RequestId, result: ReadBlockResult) -> bytes:
    """Write a good answer that may be large."""
    if len(result.chunk) < bulk.BULK_BYTES:
        return write_result(request_id, result)
    frame = write_json(_ResultEnvelope(request_id, structs.replace(result, chunk=b"")))
    return bulk.splice(frame, result.chunk)


def write_error(request_id: RequestId, error: RequestError, *, has_extensions: bool = False) -> bytes:
    """Write a bad answer, with the error's name for a client that has extensions.

    Replaces undecodable bytes of a path in its text.
    """
    return _write_error(request_id, code_of(error), str(error), data_of(error) if has_extensions else None)


def begin_file(request_id: RequestId) -> bulk.Splicing:
    """Begin the answer to `fs/readFile`; the caller fills in the content of the file."""
    from paddock.protocol.fs import ReadFileResult

    return bulk.Splicing(write_json(_ResultEnvelope(request_id, ReadFileResult(data_base64=b""))))


def begin_body(request_id: RequestId, result: HttpResult) -> bulk.Splicing:
    """Begin the answer to `http/request` with an empty body; the caller fills that in."""
    return bulk.Splicing(write_json(_ResultEnvelope(request_id, result)))


def begin_list(request_id: RequestId, result: Any) -> LongList:
    """Begin an answer whose last member is an empty list; the caller adds what belongs there."""
    return LongList(write_json(_ResultEnvelope(request_id, result)))


def write_malformed(problem: str) -> bytes:
    """Write the error for a message that has no id to answer to."""
    return _write_error(UNREADABLE_ID, INVALID_REQUEST, problem)


def _write_error(request_id: RequestId, code: int, text: str, data: dict[str, Any] | None = None) -> bytes:
    if data is not None:
        data = {name: _printable(value) if type(value) is str else value for name, value in data.items()}
    return write_json(_ErrorEnvelope(_ErrorBody(code, _printable(text), data), request_id))


def _printable(text: str) -> str:
    return excerpt(text, MAX_ERROR_CHARS).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class ServerMessage(Struct, frozen=True):
    """One message of a server, as the client reads it. The client decodes a part once it knows its type.

    A missing part is empty.
    """

    id: RequestId | None = None
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()
    error: _ErrorBody | None = None


_server_message_decoder = json.Decoder(ServerMessage)


def read_server_message(data: bytes) -> ServerMessage:
    """Read one message of a server. Raises MalformedMessage."""
    try:
        return _server_message_decoder.decode(data)
    except (DecodeError, RecursionError) as error:
        raise MalformedMessage(f"the server sent something that is not a message: {error}") from error

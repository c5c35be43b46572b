"""The server's side of one connection, without I/O.

Feed every message that arrives to `receive` and do what the returned event
says:

    Call      carry the request out, then send `write_result` or `write_error` of its id
    Refusal   send these bytes; the request is answered
    Ready     the client sent `initialized`: the server may ask from now on
    Reply     the client answers a request of the server, which may be closed already
    Drop      close the connection at once, without an answer

`initialize` comes as a Call like any other; after it succeeded the owner calls
`greeted()` with the questions of the session, and until then it may be retried. The
order of checks is fixed: an unknown method, then bad parameters, then the wrong
moment, then a method that this version does not offer.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from msgspec import Struct

from paddock.errors import InvalidRequest, MalformedMessage, MethodNotFound, RequestError
from paddock.excerpt import excerpt
from paddock.protocol.call import Call
from paddock.protocol.codec import CodecLimits, convert_params
from paddock.protocol.codes import INVALID_REQUEST, code_of
from paddock.protocol.envelope import (
    Notification,
    Request,
    RequestId,
    Response,
    read_message,
    write_error,
    write_malformed,
)
from paddock.protocol.large_message import id_of, read_large
from paddock.protocol.methods import INITIALIZE, INITIALIZED, METHODS, Method
from paddock.protocol.plain_request import read_plain
from paddock.protocol.structure import Params
from paddock.rpc.questions import OpenQuestions


class State(Enum):
    """How far the handshake has come."""

    NEW = "new"
    GREETED = "greeted"
    READY = "ready"


# Look these up once, not for each message.
_READY: Final = State.READY


class Refusal(Struct, frozen=True):
    """A request, or an unreadable message, that is answered with an error.

    All fields but `reply` are for logs and counters. Id and method are None if they could not be read.
    """

    reply: bytes
    code: int
    problem: str
    id: RequestId | None = None
    method: str | None = None


class Ready(Struct, frozen=True):
    """The handshake is complete (again)."""


class Reply(Struct, frozen=True):
    """The answer to a request of the server. `problem` says what is wrong with a bad one."""

    id: RequestId
    result: Any = None
    problem: str | None = None


class Drop(Struct, frozen=True):
    """The client broke the protocol in a way that ends the connection."""

    reason: str


Event = Call[Params] | Refusal | Ready | Reply | Drop


class ServingConnection:
    """Handshake state and request checking of one client. An operator has more methods."""

    def __init__(self, peer: str, limits: CodecLimits, *, is_operator: bool = False) -> None:
        self._peer = peer
        self._limits = limits
        self._is_operator = is_operator
        self._state = State.NEW
        self._questions: OpenQuestions | None = None

    @property
    def state(self) -> State:
        """Return how far the handshake has come."""
        return self._state

    def receive(self, data: bytes | memoryview) -> Event:
        """Return what one message means.

        Never raises for anything a client can send. Keeps no reference into a view.
        """
        limits = self._limits
        is_large = len(data) > limits.max_text_bytes
        if self._state is _READY and not is_large:
            call = read_plain(data, limits)
            if call is not None:
                return call
        try:
            message = read_large(data, limits) if is_large else read_message(bytes(data), limits)
        except MalformedMessage as problem:
            # A client whose request is too long still waits for an answer.
            request_id = id_of(data) if is_large else None
            if request_id is not None:
                refused = InvalidRequest(str(problem))
                return Refusal(write_error(request_id, refused), code_of(refused), str(problem), request_id)
            return _malformed(f"failed to parse a JSON-RPC message from {self._peer}: {problem}")
        match message:
            case Request():
                try:
                    return self._call(message, len(data))
                except RequestError as error:
                    reply = write_error(message.id, error)
                    return Refusal(reply, code_of(error), str(error), message.id, message.method)
            case Notification():
                return self._notification(message)
            case Response():
                return self._response(message)

    def greeted(self, questions: OpenQuestions) -> None:
        """Note that `initialize` has succeeded, in the session of these questions.

        Call it once, before its result is sent.
        """
        assert self._state is State.NEW
        self._state = State.GREETED
        self._questions = questions

    def _call(self, request: Request, size_bytes: int) -> Call[Params]:
        method = METHODS.get(request.method)
        if method is None or (method.is_operators and not self._is_operator):
            raise MethodNotFound(f"this server has no method {excerpt(request.method)!r}")
        params = convert_params(request.params, method.params)
        if self._state is not _READY or method.name == INITIALIZE:
            self._check_moment(method)
        if not method.is_offered:
            raise MethodNotFound(f"this server does not offer {method.name!r} yet")
        return Call(request.id, method, params, size_bytes)

    def _check_moment(self, method: Method) -> None:
        if method.name == INITIALIZE:
            if self._state is not State.NEW:
                raise InvalidRequest("initialize may only be sent once per connection")
        elif self._state is State.NEW:
            raise InvalidRequest(f"client must call initialize before using {method.family} methods")
        elif self._state is State.GREETED:
            raise InvalidRequest(f"client must send initialized before using {method.family} methods")

    def _response(self, response: Response) -> Event:
        if self._questions is None or not self._questions.was_issued(response.id):
            return Drop(f"a response to id {response.id!r}, which nobody asked for")
        return Reply(response.id, response.result, response.problem)

    def _notification(self, notification: Notification) -> Event:
        if notification.method != INITIALIZED:
            name = excerpt(notification.method)
            problem = (
                f"{name!r} is a request and was sent without an id; nothing was done"
                if name in METHODS
                else f"unexpected notification {name!r}; only {INITIALIZED!r} is understood"
            )
            return _malformed(problem)
        if self._state is State.NEW:
            return Drop("initialized was sent before initialize")
        self._state = State.READY
        return Ready()


def _malformed(problem: str) -> Refusal:
    return Refusal(write_malformed(problem), INVALID_REQUEST, problem)

"""Error codes <-> exceptions: the one translation point between the wire and Python."""

from __future__ import annotations

from paddock.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotFound,
    OperationFailed,
    RequestError,
    SessionAttached,
)

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32004
SESSION_ATTACHED = -32010

TABLE: tuple[tuple[int, type[RequestError]], ...] = (
    (INVALID_REQUEST, InvalidRequest),
    (METHOD_NOT_FOUND, MethodNotFound),
    (INVALID_PARAMS, InvalidParams),
    (INTERNAL_ERROR, OperationFailed),
    (NOT_FOUND, NotFound),
    (SESSION_ATTACHED, SessionAttached),
)
"""The first row that fits an error gives its code."""

CODES = tuple(code for code, _ in TABLE)
"""Every code that this server answers with."""


def code_of(error: RequestError) -> int:
    """The wire code of an error; what has no code of its own is an internal error."""
    for code, kind in TABLE:
        if isinstance(error, kind):
            return code
    return INTERNAL_ERROR


def error_for(code: int, message: str) -> RequestError:
    """The exception that a client raises for an error response. An unknown code stays visible in the text."""
    for known, kind in TABLE:
        if code == known:
            return kind(message)
    return RequestError(f"{message} (error code {code})")

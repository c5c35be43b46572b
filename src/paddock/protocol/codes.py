"""Errors of the wire <-> exceptions: the one translation point between the two.

A code names the kind of an error, and is all that the reference protocol sends.
Clients that asked for extensions also get the error's name and its particulars in `data`,
so that they raise the very exception that the server raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from paddock.errors import (
    ExecForbidden,
    ForeignSession,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotATerminal,
    NotFound,
    OperationFailed,
    ProcessExists,
    ProfileExceeded,
    RequestError,
    SessionAttached,
    SpawnerLost,
    SpawnError,
    StdinClosed,
    StdinFull,
    TooManyProcesses,
    TooManyWaits,
    UnknownProcess,
    UnknownQuestion,
    UnknownSession,
    file_error,
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


class Named(Struct, frozen=True):
    """An exception with its own name on the wire, and how its particulars there map to its attributes."""

    name: str
    kind: type[RequestError]
    particulars: Mapping[str, str] = field(default_factory=dict)


_PROCESS = {"processId": "process_id"}
_QUESTION = {"questionId": "question_id"}
_SESSION = {"sessionId": "session_id"}
_LIMIT = {"limit": "limit"}
_EXEC = {"kind": "kind", "setting": "setting"}
_EXCESS = {"excess": "excess", "profile": "profile"}
_SPAWN = {name: name for name in ("stage", "errno", "program", "cwd", "flaw")}

NAMED: tuple[Named, ...] = (
    Named("unknownProcess", UnknownProcess, _PROCESS),
    Named("processExists", ProcessExists, _PROCESS),
    Named("tooManyProcesses", TooManyProcesses, _LIMIT),
    Named("tooManyWaits", TooManyWaits, _LIMIT),
    Named("stdinClosed", StdinClosed, _PROCESS),
    Named("stdinFull", StdinFull, _PROCESS),
    Named("notATerminal", NotATerminal, _PROCESS),
    Named("execForbidden", ExecForbidden, _EXEC),
    Named("profileExceeded", ProfileExceeded, _EXCESS),
    Named("unknownQuestion", UnknownQuestion, _QUESTION),
    Named("unknownSession", UnknownSession, _SESSION),
    Named("foreignSession", ForeignSession, _SESSION),
    Named("spawnError", SpawnError, _SPAWN),
    Named("spawnerLost", SpawnerLost),
)
"""Every exception that tells a caller more than its code does about what to do."""

FILE_ERROR = "fileError"
"""The name of errors about files from the operating system; their particulars are `errno` and `path`."""

_OS_ERROR = r"\(os error (\d{1,4})\)$"
"""How the reference protocol reports an error number: at the end of the message."""

_NAMED_BY_KIND = {named.kind: named for named in NAMED}
_NAMED_BY_NAME = {named.name: named for named in NAMED}


def code_of(error: RequestError) -> int:
    """Return the wire code of an error; one that has no code of its own is an internal error."""
    for code, kind in TABLE:
        if isinstance(error, kind):
            return code
    return INTERNAL_ERROR


def data_of(error: RequestError) -> dict[str, Any] | None:
    """Return the name and particulars of an error that has a name."""
    if error.os_error is not None:
        number, path = error.os_error
        return {"name": FILE_ERROR, "errno": number, "path": path}
    named = _NAMED_BY_KIND.get(type(error))
    if named is None:
        return None
    return {"name": named.name} | {
        particular: getattr(error, attribute) for particular, attribute in named.particulars.items()
    }


def error_for(code: int, message: str, data: Any = None) -> RequestError:
    """Return the exception that a client raises for an error response.

    An unknown code stays visible in the text.
    """
    for known, kind in TABLE:
        if code == known:
            return _named_error(kind, message, data) or _file_error(kind, message, data) or kind(message)
    return RequestError(f"{message} (error code {code})")


def _file_error(family: type[RequestError], message: str, data: Any) -> RequestError | None:
    """Return the exception that is also a builtin OSError, if the server sent an error number."""
    path = None
    if isinstance(data, dict) and data.get("name") == FILE_ERROR:
        number, path = data.get("errno"), data.get("path")
    elif (told := re.search(_OS_ERROR, message)) is not None:
        number = int(told[1])
    else:
        return None
    if type(number) is not int or not 0 < number < 4096 or not isinstance(path, str | None):
        return None
    return file_error(family, message, number, path)


def _named_error(family: type[RequestError], message: str, data: Any) -> RequestError | None:
    """Return the exception that `data` names, if it makes sense: other servers may send anything there."""
    named = _NAMED_BY_NAME.get(str(data.get("name"))) if isinstance(data, dict) else None
    if named is None or not issubclass(named.kind, family):
        return None
    if not named.particulars:
        return named.kind(message)
    try:
        error = named.kind(**{attribute: data[name] for name, attribute in named.particulars.items()})
        # Particulars of the wrong type show when the text is made.
        str(error)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return error

"""docs/reference/protocol.md: every method and notification, from the table and the structs.

A field of what is offered must have a meaning, in the source or in COMMON; the page can't be
made without.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec.inspect as inspect
from msgspec import NODEFAULT

from paddock import errors
from paddock.config import Settings
from paddock.model import terminal
from paddock.model.profile import Grant
from paddock.process import output_log
from paddock.protocol import bound, codes, structure
from paddock.protocol.methods import (
    METHODS,
    NOTIFICATIONS,
    OPTIONAL_NOTIFICATIONS,
    SERVER_REQUESTS,
    Method,
    RequestQueue,
    ServerRequest,
)
from paddock.server import session, session_process
from paddock.server.handlers import Handlers, process
from scripts.reference.docstring import constant_meanings, field_meanings, paragraphs, summary
from scripts.reference.example import Example
from scripts.reference.examples import EXAMPLES
from scripts.reference.markdown import anchor, code, document, fence, table
from scripts.reference.wire_type import bounds, describe, literal, number

COMMON = {
    "argv": "The program and its arguments.",
    "chunk": "The bytes.",
    "closed": "Whether the process has exited and no further output can come.",
    "cols": "Columns of the window.",
    "cwd": "The working directory.",
    "env": "The whole environment.",
    "exit_code": "The exit status, 128 + n for death by signal n; null while it is unknown.",
    "exited": "Whether the process has exited.",
    "follow_symlinks": "Whether to follow links; if false, no part of the path may be one. True by default.",
    "handle_id": "Which open file: the id that the client gave it.",
    "is_directory": "Whether it is a directory.",
    "is_file": "Whether it is a regular file.",
    "kind": "What it is.",
    "message": "What happened.",
    "modified_at_ms": "When it was modified, in milliseconds since the epoch.",
    "name": "Its name.",
    "offset": "Where in the file, in bytes from its beginning.",
    "path": "Where it is.",
    "pid": "The process id on the host; 0 before the start.",
    "process_id": "Which process: the name that the client gave it.",
    "processes": "Oldest first.",
    "rows": "Lines of the window.",
    "running": "Whether it has not ended.",
    "sandbox": "What the operation may read and write; by default, whatever the server's user may.",
    "sandbox_denied": "Whether its sandbox, as far as can be told, made it fail.",
    "seq": "The number of the event.",
    "server": "The server itself.",
    "session_id": "Which session.",
    "stderr": "Bytes of stderr.",
    "stdout": "Bytes of stdout.",
    "terminal": "Bytes of the terminal's output.",
    "started_at_ms": "Milliseconds since the epoch.",
    "stream": "Where it came out.",
    "tty": "Whether it runs on a terminal.",
    "version": "Its version.",
}
"""Fields that mean the same wherever they occur, by their Python name, unless the source says otherwise."""

OPERATORS_SESSION = "Whose process: an operator, on the control socket, may name another session."

INTRODUCTION = """\
Messages are JSON-RPC 2.0 objects. The server neither requires nor sends their member `jsonrpc`. Over a
websocket one message is one text or binary frame, possibly fragmented; over a unix socket or stdio it is
one line. A request has a string or a 64-bit integer as `id`. Answers may come in another order than their
requests. The server does not understand batches.

A connection begins with the request `initialize` and the notification `initialized`. The server refuses
anything else before them with -32600. It ends a connection on which `initialized` precedes `initialize`, or
on which an answer comes to a request that it never made. It answers a message that it can't read with
-32600 and the id -1.

Every shape here that is not marked as an *extension* is that of the reference protocol (Codex's
`exec-server`). A client that does not ask for extensions in `initialize` gets no others. The server ignores
unknown members of parameters, except in a permission profile. Parameters may also be an array of all fields
that are not extensions, in order. A *path* is an absolute path or a `file:` URI. Answers use the form of
the request, but a name that is not UTF-8 always comes as a URI. *base64* is standard base64 with padding.

Ordinary requests run concurrently up to a bound, and wait in order beyond it; *control* requests have a
queue of their own. While `process/wait` and `process/read` wait for something to happen, they are *parked*:
they do not count towards the bound, but the server refuses too many of them. A request about a process that
is being started waits for it, or stands in the queue behind the start. With `concurrent_requests = 1`
everything runs in the order of arrival."""

SERVER_REQUESTS_TEXT = """\
*Extension*: the server sends these to clients that name them in `requests` of `initialize`. A question
belongs to the session and has an id of its own. On each connection it has a request id that the session has
not used before, and after a resume the server sends every open question again. It ignores an answer to a
request that nobody waits for any more. An answer that is an error, or means nothing, closes the question.
When somebody else has answered (`control/answer`), or the time for an answer is over, `question/closed` says
so. [Questions](../explanation/questions.md) says more."""

LIMITS_OF_SETTINGS = (
    "concurrent_requests",
    "max_parked_requests",
    "queued_requests",
    "max_processes_per_connection",
    "max_open_questions",
    "retained_output_bytes_per_process",
    "closed_process_ttl_s",
    "session_ttl_s",
    "max_connections",
    "max_frame_bytes",
    "max_message_bytes",
    "max_json_values",
    "max_json_depth",
    "send_buffer_bytes",
)
FIXED_LIMITS = (
    (output_log, "CHUNK_LIMIT_BYTES"),
    (process, "LONGEST_WAIT_MS"),
    (session_process, "REMEMBERED_WRITES"),
    (session, "REMEMBERED_STARTS"),
    (session, "REMEMBERED_CLOSED"),
    (terminal, "MAX_CELLS"),
    (bound, "MAX_NAME_CHARS"),
    (bound, "MAX_PATH_CHARS"),
    (bound, "MAX_URL_CHARS"),
    (bound, "MAX_HEADERS"),
    (bound, "MAX_ENTRIES"),
    (bound, "MAX_FEATURES"),
)


def page() -> str:
    """The whole page."""
    offered = [method for method in METHODS.values() if method.result is not None]
    missing = [method for method in METHODS.values() if method.result is None]
    return document(
        "Protocol",
        INTRODUCTION,
        "## Methods",
        table(("method", "kind"), ((f"[{code(m.name)}]({anchor(m.name)})", _kinds(m)) for m in offered)),
        *map(_method, offered),
        "## Notifications",
        "The server sends these. They have no id, and need no answer.",
        *(_notification(name, kind, "") for name, kind in NOTIFICATIONS.items()),
        *(_notification(name, kind, _OPTIONAL) for name, kind in OPTIONAL_NOTIFICATIONS.items()),
        "## Requests of the server",
        SERVER_REQUESTS_TEXT,
        *map(_server_request, SERVER_REQUESTS.values()),
        "## Types",
        "Structures inside other structures.",
        *(_section(code(name), kind) for name, kind in sorted(_nested(offered).items())),
        "## Errors",
        "An error has a `code` and a `message` for people. For clients that asked for extensions, an error "
        "with a name also has that in `data.name`, and beside it what it is about, such as `data.processId`.",
        table(("code", "error", "name", "meaning"), _errors()),
        "## Limits",
        "Settings, with their defaults ([config.md](config.md)):",
        table(("limit", "default", "meaning"), _limits_of_settings()),
        "Fixed:",
        table(("limit", "value", "meaning"), _fixed_limits()),
        "## Not offered",
        "Of these methods of the reference protocol, the server checks the parameters and answers -32601: "
        + ", ".join(code(method.name) for method in missing)
        + ".",
    )


_OPTIONAL = "*Extension*: the server sends it only to clients that name it in `initialize`."


def _kinds(method: Method) -> str:
    kinds = [
        "control request" if method.queue is RequestQueue.CONTROL else "ordinary request",
        "extension" if method.is_extension else "",
        "operators only" if method.is_operators else "",
    ]
    return ", ".join(filter(None, kinds))


def _method(method: Method) -> str:
    assert method.result is not None
    parts = [f"### {method.name}", f"*{_kinds(method)}*", _purpose(method)]
    parts.append(_fields(method.params) or "No parameters: absent, null or an empty object.")
    parts.append(f"**Result.** {_text(method.result)}")
    parts.append(_fields(method.result) or "An empty object.")
    parts += map(_example, EXAMPLES.get(method.name, ()))
    return "\n\n".join(parts)


def _purpose(method: Method) -> str:
    """What the parameters say of themselves; where several methods share them, what the handler says."""
    users = [other for other in METHODS.values() if other.params is method.params]
    if len(users) == 1:
        return _text(method.params)
    return summary(Handlers()[method.name])


def _notification(name: str, kind: type[structure.Result], note: str) -> str:
    text = _text(kind).removeprefix(f"{code(name)}: ").removeprefix(f"{code(name)}, by opt-in: ")
    text = "" if text.startswith(f"{code(name)}") else text[:1].upper() + text[1:]
    return "\n\n".join(filter(None, (f"### {name}", note, text, _fields(kind))))


def _server_request(request: ServerRequest) -> str:
    parts = [f"### {request.name}", _text(request.params), _fields(request.params)]
    parts += [f"**Result.** {_text(request.result)}", _fields(request.result)]
    return "\n\n".join(parts)


def _section(heading: str, kind: type) -> str:
    return "\n\n".join(filter(None, (f"### {heading}", _text(kind), _fields(kind))))


def _text(kind: type) -> str:
    """The docstring, with the names of fields as they are on the wire."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return _on_the_wire(summary(kind), info)


def _on_the_wire(text: str, info: inspect.StructType) -> str:
    names = {field.name: field.encode_name for field in info.fields}
    return re.sub(r"`(\w+)`", lambda found: code(names.get(found[1], found[1])), text)


def _fields(kind: type) -> str:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    is_request = issubclass(kind, structure.Params | Grant)
    rows = [_tag_row(info)] if info.tag_field else []
    rows += [_row(info, field) for field in info.fields]
    return table(("field", "type", "required" if is_request else "present", "meaning"), rows)


def _tag_row(info: inspect.StructType) -> tuple[str, ...]:
    return (
        code(str(info.tag_field)),
        code(json.dumps(info.tag)),
        "yes",
        "Which of the alternatives this is.",
    )


def _row(info: inspect.StructType, field: inspect.Field) -> tuple[str, ...]:
    is_extension = field.name in getattr(info.cls, "EXTENSIONS", ())
    name = f"{code(field.encode_name)} *(extension)*" if is_extension else code(field.encode_name)
    kind = ", ".join(filter(None, (describe(field.type, _link), bounds(field.name, field.type))))
    return name, kind, _presence(info, field), _on_the_wire(_meaning(info.cls, field), info)


def _presence(info: inspect.StructType, field: inspect.Field) -> str:
    if field.required:
        return "yes"
    if not issubclass(info.cls, structure.Params | Grant):
        return "to clients that asked for extensions"
    is_unset = field.default is NODEFAULT and field.default_factory is NODEFAULT
    if is_unset and field.name not in getattr(info.cls, "EXTENSIONS", ()):
        # What stands in its place is said in the text.
        return "see above"
    if field.default is None or field.default is NODEFAULT:
        return "no"
    return f"no, default {literal(field.name, field.default)}"


def _meaning(kind: type, field: inspect.Field) -> str:
    stated = field_meanings(kind).get(field.name)
    if stated is not None:
        return stated
    if field.name == "session_id" and issubclass(kind, structure.Params):
        return OPERATORS_SESSION
    common = COMMON.get(field.name)
    if common is None and not issubclass(kind, Grant):
        raise ValueError(f"{kind.__name__}.{field.name} has no meaning; put a string below it in the source")
    return common or ""


def _link(kind: type) -> str:
    return f"[{kind.__name__}]({anchor(kind.__name__)})"


def _nested(methods: list[Method]) -> dict[str, type]:
    """The structures inside of parameters, results and notifications that are none themselves, by name."""
    roots: list[type] = [
        kind for method in methods for kind in (method.params, method.result) if kind is not None
    ]
    roots += [*NOTIFICATIONS.values(), *OPTIONAL_NOTIFICATIONS.values()]
    roots += [kind for request in SERVER_REQUESTS.values() for kind in (request.params, request.result)]
    found: dict[str, type] = {}
    for root in roots:
        for kind in _structures_in(inspect.type_info(root)):
            if kind not in roots:
                found[kind.__name__] = kind
    return found


def _structures_in(info: inspect.Type) -> Iterator[type]:
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            yield cls
            for field in fields:
                yield from _structures_in(field.type)
        case inspect.UnionType(types=types):
            for member in types:
                yield from _structures_in(member)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from _structures_in(item)


def _errors() -> Iterator[tuple[str, ...]]:
    names = {named.kind: named.name for named in codes.NAMED}
    for number_of_code, root in codes.TABLE:
        for kind in _family(root):
            if kind not in _NEVER_SENT:
                is_file_error = issubclass(kind, errors.FileError)
                name = code(codes.FILE_ERROR) if is_file_error else code(names[kind]) if kind in names else ""
                yield str(number_of_code), kind.__name__, name, paragraphs(kind)[0]


_NEVER_SENT = (errors.CapabilityMissing,)
"""What a client raises by itself."""


def _family(kind: type[errors.RequestError]) -> Iterator[type[errors.RequestError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _family(child)


def _limits_of_settings() -> Iterator[tuple[str, ...]]:
    defaults = Settings()
    for name in LIMITS_OF_SETTINGS:
        yield code(name), number(name, getattr(defaults, name)), field_meanings(Settings)[name]


def _fixed_limits() -> Iterator[tuple[str, ...]]:
    for module, name in FIXED_LIMITS:
        yield code(name), number(name, getattr(module, name)), constant_meanings(module)[name]


def _example(example: Example) -> str:
    lines = [_compact(message) for message in example.messages()]
    return f"{example.title}:\n\n{fence(chr(10).join(lines), 'json')}"


def _compact(message: object) -> str:
    return json.dumps(message, ensure_ascii=False)

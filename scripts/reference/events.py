"""docs/reference/events.md: every event of the log, found where the source writes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paddock
from scripts.reference.markdown import code, document, fence, table

INTRODUCTION = """\
`paddock serve --log-level info` logs what happens, one event on each line of standard error. The name of an
event is constant, and what varies is in its fields. With `--log-format json` each line is an object:"""

EXAMPLE = """\
{"time":"2026-03-04T05:06:07.890Z","level":"info","logger":"paddock.server.record","event":"process exited",\
"session":"0f3a9c2e","process":"build","exit_code":0}
"""

EXPLANATION = """\
`time`, `level`, `logger` and `event` are always there; an error of the server itself has `error` and
`traceback` too. The server leaves out a field without a value, and cuts a long one. Names and texts that
clients chose can't break a line: the server escapes whatever is not printable.

Events about a connection have the field `connection`, its number among the connections of this server.
Events about a session, its processes and the connection that holds it have `session`, the beginning of the
session's id: with the whole id, a reader of the log could take the session over. `process` is the id that
the client gave, and `request` the id of the JSON-RPC request. The server logs the program of a process, and
its arguments only with `--log-level debug`. It never logs tokens, environments, input or output."""

LEVELS = ("debug", "info", "warning", "error")
ROOT = Path(paddock.__file__).parent


@dataclass(frozen=True, slots=True)
class Written:
    """One place in the source that writes an event."""

    event: str
    level: str
    fields: tuple[str, ...]


def page() -> str:
    """The whole page."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for each in events_in(path.read_text("utf-8")):
            found.setdefault((each.level, each.event), {}).update(dict.fromkeys(each.fields))
    rows = [
        (code(event), level, ", ".join(map(code, fields)))
        for (level, event), fields in sorted(
            found.items(), key=lambda item: (-LEVELS.index(item[0][0]), item[0])
        )
    ]
    return document(
        "Events of the log",
        INTRODUCTION,
        fence(EXAMPLE, "json"),
        EXPLANATION,
        table(("event", "level", "fields"), rows),
    )


def events_in(source: str) -> Iterator[Written]:
    """The events that a module writes: calls such as `journal.info("name", field=...)`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=journal, attr=level), args=[name, *_], keywords=keywords):
                if level in LEVELS and ast.unparse(journal).endswith("journal"):
                    fields = tuple(word.arg for word in keywords if word.arg and word.arg != "error")
                    for event in _names(name):
                        yield Written(event, level, fields)


def _names(name: ast.expr) -> Iterator[str]:
    match name:
        case ast.Constant(value=str() as event):
            yield event
        case ast.IfExp(body=one, orelse=other):
            yield from (*_names(one), *_names(other))
        case _:
            raise ValueError(f"the name of an event is a constant, not {ast.unparse(name)}")

"""Writes what happened as events with fields: the one way in which Paddock writes to a log.

An event has a name, a constant phrase that can be searched for; whatever varies is in
its fields, and ids that were bound once go with every event. The record that reaches
`logging` holds an `Event`, which formatters may take apart and which any other
formatter shows as one line of printable text.

A level that is off costs one check: nothing is formatted. Callers never give a token,
an environment or what a process reads and writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from paddock.excerpt import excerpt
from paddock.printable import printable

Value = str | int | float | bool | tuple[str, ...] | None
"""What a field may hold. A field that is None is left out."""

FIELD_LIMIT_CHARS = 256
"""A client chooses its names and arguments: a field may not become as long as a message."""

ITEMS_LIMIT = 32
"""How many strings of a tuple are shown, for the same reason."""


class Event:
    """One thing that happened."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: Mapping[str, Value]) -> None:
        self.name = name
        self.fields = fields

    def text(self, limit_chars: int = FIELD_LIMIT_CHARS) -> str:
        """Format the event on one printable line: its name and `field=value`, each value within the limit."""
        words = [printable(str(cut(self.name, limit_chars)))]
        for name, value in self.fields.items():
            if value is not None:
                words.append(f"{name}={_value_text(cut(value, limit_chars))}")
        return " ".join(words)

    def __str__(self) -> str:
        return self.text()


class Journal:
    """Writes events of one part of the program, each with the ids that are bound to it."""

    __slots__ = ("_ids", "_logger")

    def __init__(self, logger: logging.Logger, **ids: Value) -> None:
        self._logger = logger
        self._ids = ids

    def bind(self, **ids: Value) -> Journal:
        """Return a journal whose events carry these ids too."""
        return Journal(self._logger, **{**self._ids, **ids})

    @property
    def is_debugging(self) -> bool:
        """Return whether `debug` writes anything. Ask before you prepare anything for it on a hot path."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, /, **fields: Value) -> None:
        """Log something that matters only in the search for a fault."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Value) -> None:
        """Log something that an operator may want to know."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Value) -> None:
        """Log something that is wrong, and was dealt with."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, *, error: BaseException | None = None, **fields: Value) -> None:
        """Log something that failed in the server itself; `error` is shown with its traceback."""
        self._write(logging.ERROR, event, fields, error)

    def _write(
        self, level: int, name: str, fields: Mapping[str, Value], error: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, Event(name, {**self._ids, **fields}), exc_info=error)


def cut(value: Value, limit_chars: int) -> Value:
    """Cut the value to the limit, and say how much is missing."""
    if isinstance(value, str):
        return excerpt(value, limit_chars)
    if isinstance(value, tuple):
        shown = tuple(str(cut(item, limit_chars)) for item in value[:ITEMS_LIMIT])
        return (*shown, f"… (+{len(value) - ITEMS_LIMIT})") if len(value) > ITEMS_LIMIT else shown
    return value


def _value_text(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(_quoted, value))}]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    is_plain = text != "" and text.isprintable() and not any(char in text for char in ' "=\\')
    return text if is_plain else _quoted(text)


def _quoted(text: str) -> str:
    """Return a JSON string of printable characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'

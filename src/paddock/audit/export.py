"""Records as rows of a table, for spreadsheets and databases. Pure."""

from __future__ import annotations

import json
from typing import Any

from paddock.audit.query import Record

COLUMNS = (
    *("seq", "time", "kind", "connection", "session", "process", "request", "pid"),
    *("argv", "cwd", "env", "exit_code", "signal", "decision", "reason", "details", "prev"),
)
"""Fields with a column of their own; `details` has the rest of a record, as JSON."""

FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins with one of these for a formula, and clients choose the content."""


def row_of(record: Record) -> list[str]:
    """Return the cells of a record in the order of COLUMNS."""
    details = {name: value for name, value in record.items() if name not in COLUMNS}
    return [_cell(details or None if name == "details" else record.get(name)) for name in COLUMNS]


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return f"'{value}" if value.startswith(FORMULA_MARKS) else value
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False)
    return str(value)

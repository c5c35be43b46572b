"""Settings for the format and the content of a server's log."""

from __future__ import annotations

from enum import StrEnum


class LogFormat(StrEnum):
    """The format of a line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest severity that the server logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

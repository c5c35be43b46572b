"""What the log of a server is to look like, and what it is to hold."""

from __future__ import annotations

from enum import StrEnum


class LogFormat(StrEnum):
    """What a line is."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From which severity on events are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

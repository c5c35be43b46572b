"""What a server does when it can't write its audit log."""

from __future__ import annotations

from enum import StrEnum


class AuditFailure(StrEnum):
    """Which gives way when the log can't be written: the start or the record."""

    STOP = "stop"
    """The server starts nothing that it can't record."""

    CONTINUE = "continue"
    """The server starts processes all the same; the log tells later how many records are missing."""

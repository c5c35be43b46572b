"""What a server does when it can't write its audit log."""

from __future__ import annotations

from enum import StrEnum


class AuditFailure(StrEnum):
    """Which one gives way when the server can't write the log: the start or the record."""

    STOP = "stop"
    """The server starts nothing that it can't record."""

    CONTINUE = "continue"
    """The server starts processes all the same; the log later records how many records are missing."""

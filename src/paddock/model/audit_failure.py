"""What a server does when it can't write its audit log."""

from __future__ import annotations

from enum import StrEnum


class AuditFailure(StrEnum):
    """Which of the two gives way."""

    STOP = "stop"
    """Nothing is started that can't be recorded."""

    CONTINUE = "continue"
    """Processes are started all the same; the log tells later how many records are missing."""

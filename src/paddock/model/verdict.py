"""The decision on a program that a confined command wants to execute."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """Where a program runs, if it does."""

    RUN = "run"
    """Inside the sandbox, as if nobody had asked."""
    ESCALATE = "escalate"
    """Outside it."""
    DENY = "deny"
    """Nowhere: the caller gets a message and status 1."""


class Remember(StrEnum):
    """For how long an answer stands for other questions of the same kind."""

    PROCESS = "process"
    SESSION = "session"


class HostRemember(StrEnum):
    """For how long an answer about a host stands."""

    PROCESS = "process"
    SESSION = "session"
    RULE = "rule"
    """For ever: as a line in the server's file of rules about hosts."""

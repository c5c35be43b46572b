"""The parameters of a server's notifications about processes."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType

from paddock.model.cause import Cause
from paddock.model.stream import Stream
from paddock.protocol.denial import Denial
from paddock.protocol.intercept import ExecSummary
from paddock.protocol.structure import Result
from paddock.protocol.usage import Usage


class OutputEvent(Result, frozen=True, kw_only=True):
    """`process/output`."""

    process_id: str
    seq: int
    """The number of the event; each is one more than the last."""
    stream: Stream
    chunk: bytes


class ExitedEvent(Result, frozen=True, kw_only=True):
    """`process/exited`: the process has ended; its streams may still hold output."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"cause", "denials", "execs", "usage"})

    process_id: str
    seq: int
    exit_code: int
    """The exit status, 128 + n for death by signal n."""
    sandbox_denied: bool = False
    """Whether its sandbox, as far as can be told, made it fail."""
    denials: list[Denial] | UnsetType = UNSET
    """What its sandbox kept it from; absent if that is nothing."""
    cause: Cause | UnsetType = UNSET
    """What ended it: `exit`, `signal`, a limit of its profile (`memory`, `cpu`, `wall`, `processes`),
    `breach` if its sandbox was opened from outside, or `terminated`."""
    usage: Usage | UnsetType = UNSET
    """What it used."""
    execs: ExecSummary | UnsetType = UNSET
    """What became of the programs that it executed; absent if they were not intercepted."""


class ClosedEvent(Result, frozen=True, kw_only=True):
    """`process/closed`: it has ended and its streams are at their end. The last event."""

    process_id: str
    seq: int


class StartedEvent(Result, frozen=True, kw_only=True):
    """`process/started`, by opt-in."""

    process_id: str
    started_at_ms: int


class FailedEvent(Result, frozen=True, kw_only=True):
    """`process/failed`, by opt-in: it could not be started, or its outcome is unknown."""

    process_id: str
    message: str

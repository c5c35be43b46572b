"""What a server tells of processes without being asked: the parameters of its notifications."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, UnsetType

from paddock.model.cause import Cause
from paddock.model.stream import Stream
from paddock.protocol.structure import Result


class OutputEvent(Result, frozen=True, kw_only=True):
    """`process/output`."""

    process_id: str
    seq: int
    """The number of the event; each is one more than the last."""
    stream: Stream
    chunk: bytes


class Usage(Result, frozen=True, kw_only=True):
    """What a process and the descendants that it waited for have used."""

    wall_ms: int
    """Time from its start to its end."""
    user_ms: int
    """Processor time in programs."""
    system_ms: int
    """Processor time in the kernel."""
    peak_memory_bytes: int
    """The most memory that one of them had."""


class ExitedEvent(Result, frozen=True, kw_only=True):
    """`process/exited`: the process has ended; its streams may still hold output."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"cause", "usage"})

    process_id: str
    seq: int
    exit_code: int
    """The exit status, 128 + n for death by signal n."""
    sandbox_denied: bool = False
    """Whether its sandbox, as far as can be told, made it fail."""
    cause: Cause | UnsetType = UNSET
    """What ended it: `exit`, `signal`, a limit of its profile (`cpu`, `wall`, `processes`), or `terminated`.

    `processes` means that it failed while it had as many as it may have, and none could be started."""
    usage: Usage | UnsetType = UNSET
    """What it used."""


class ClosedEvent(Result, frozen=True, kw_only=True):
    """`process/closed`: it has ended and its streams are at their end. The last event."""

    process_id: str
    seq: int


class StartedEvent(Result, frozen=True, kw_only=True):
    """`process/started`, by opt-in."""

    process_id: str
    started_at_ms: int


class FailedEvent(Result, frozen=True, kw_only=True):
    """`process/failed`, by opt-in: it could not be started, or what became of it is not known."""

    process_id: str
    message: str

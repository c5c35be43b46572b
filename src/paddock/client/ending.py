"""How a process ended, as the server reports it. Pure.

Servers of the reference protocol report the status and whether the sandbox denied something, older ones the
status alone. Anything that the server does not report is None or empty.
"""

from __future__ import annotations

from msgspec import UNSET, Struct

from paddock.model.cause import Cause
from paddock.model.denial import Denial
from paddock.model.execution_note import ExecutionSummary
from paddock.model.usage import Usage
from paddock.protocol.denial import decode_denial
from paddock.protocol.intercept import decode_summary
from paddock.protocol.process import ReadResult
from paddock.protocol.process_event import ExitedEvent
from paddock.protocol.usage import decode_usage


class Ending(Struct, frozen=True):
    """The end of a process."""

    exit_code: int
    """The exit status, 128+n for signal n."""
    sandbox_denied: bool = False
    """Whether the process probably failed because of its sandbox."""
    denials: tuple[Denial, ...] = ()
    """What its sandbox kept it from."""
    cause: Cause | None = None
    """What ended it."""
    usage: Usage | None = None
    """What it used."""
    execs: ExecutionSummary | None = None
    """What became of the programs that it executed, if they were intercepted."""


def ending_of(told: ExitedEvent | ReadResult) -> Ending | None:
    """Return the ending that a server reports; None while the process runs."""
    if told.exit_code is None:
        return None
    return Ending(
        exit_code=told.exit_code,
        sandbox_denied=told.sandbox_denied,
        denials=() if told.denials is UNSET else tuple(decode_denial(denial) for denial in told.denials),
        cause=None if told.cause is UNSET else told.cause,
        usage=None if told.usage is UNSET else decode_usage(told.usage),
        execs=decode_summary(told.execs),
    )

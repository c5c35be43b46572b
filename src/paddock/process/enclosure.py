"""The surroundings of a process, as far as its end is concerned.

A process that runs in something else, such as a sandbox, is not over when that is gone:
places may have to be cleared, and the parent that the spawner waited for is not the command
itself. How it was enclosed is not known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from paddock.model.cause import Cause
from paddock.model.denial import Denial
from paddock.model.execution_note import ExecutionSummary
from paddock.process.output_log import OutputLog
from paddock.process.spawner import ExitReport


class Ending(Struct, frozen=True):
    """How the command itself ended, and what of its surroundings ended it, if something certainly did."""

    report: ExitReport
    cause: Cause | None = None


class Judgement(Struct, frozen=True):
    """What surroundings had to do with the end of a command."""

    is_denied: bool = False
    """Whether the command probably failed because of them."""
    denials: tuple[Denial, ...] = ()
    """What they kept it from, also if it ended well."""
    limit: Cause | None = None
    """Which limit made it fail, if one did, going by what it wrote."""
    executions: ExecutionSummary | None = None
    """What became of the programs that it executed, if somebody decided on them."""


class Enclosure(Protocol):
    """The surroundings of one process. Its methods are called once each, in this order."""

    async def confirmed(self, said: Callable[[], bytes]) -> None:
        """Wait until the process is enclosed; `said` gives what it has written. Raises RequestError."""

    async def cleared(self, report: ExitReport) -> Ending:
        """Clear away what the process needed, and return how the command itself ended."""

    async def judged(self, exit_code: int, output: OutputLog) -> Judgement:
        """Return what the surroundings kept the command from, as far as can be told. Never fails."""

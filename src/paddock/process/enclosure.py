"""The surroundings of a process, as far as its end is concerned.

A process that runs in an enclosure, such as a sandbox, needs more than an exit to be over: Paddock
may have to clear directories, and the parent that the spawner waits for is not the command
itself. It also ends later. This module does not know how a process is enclosed.
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
    """How the command itself ended, and which part of its surroundings ended it, if that is certain."""

    report: ExitReport
    cause: Cause | None = None


class Judgement(Struct, frozen=True):
    """The part that the surroundings played in the end of a command."""

    is_denied: bool = False
    """Whether the command probably failed because of them."""
    denials: tuple[Denial, ...] = ()
    """What they kept it from, even if it succeeded."""
    limit: Cause | None = None
    """The limit that made it fail, if its output says so."""
    executions: ExecutionSummary | None = None
    """Outcomes of the programs that it executed, if rules or people decided on them."""


class Enclosure(Protocol):
    """The surroundings of one process. Its methods are called once each, in this order."""

    async def confirmed(self, said: Callable[[], bytes]) -> None:
        """Wait until the process is enclosed; `said` returns its output so far. Raises RequestError."""

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call `tell` once when it is certain that nothing of the command lives any more.

        That may be before the spawner reports the end of what encloses the command. It may also never
        happen, and does not after `cleared` was called.
        """

    async def cleared(self, report: ExitReport | None) -> Ending:
        """Remove what the process needed, and return how the command itself ended.

        The spawner's `report` is None if `when_over` has told of the end first.
        """

    async def judged(self, exit_code: int, output: OutputLog) -> Judgement:
        """Return what the surroundings kept the command from, as far as is known. Never fails."""

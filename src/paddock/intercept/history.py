"""The verdicts of one process, for its end. Pure.

Plain runs are only counted. Of the others the first are kept: what a command does again and again
is seen there, and its end holds bounded memory.
"""

from __future__ import annotations

from typing import Final

from paddock.intercept.execution import Execution
from paddock.intercept.verdict import ExecVerdict
from paddock.model.execution_note import ExecutionNote, ExecutionSummary
from paddock.model.verdict import Verdict

MAX_ENTRIES: Final = 100
MAX_ARGUMENTS: Final = 32
MAX_WORD_CHARS: Final = 1024
"""An entry has at most 32 words of 1 KiB: 100 of them take no more than 3.2 MiB, and mostly a few KiB."""


class History:
    """What became of the executions of one process."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self.counts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        """All executions, the plain runs included."""
        self.entries: list[ExecutionNote] = []
        """The first that were not plain runs."""
        self.total = 0
        """How many were not plain runs."""

    def count_plain_run(self) -> None:
        """Note an execution that nobody has decided on."""
        self.counts[Verdict.RUN] += 1

    def add(self, execution: Execution, verdict: ExecVerdict) -> None:
        """Note what became of an execution."""
        self.counts[verdict.verdict] += 1
        if verdict.is_plain:
            return
        self.total += 1
        if len(self.entries) < self._max_entries:
            self.entries.append(note_of(execution, verdict))

    def summary(self) -> ExecutionSummary:
        """Return what was noted so far."""
        return ExecutionSummary(tuple(self.entries), self.total, dict(self.counts))


def note_of(execution: Execution, verdict: ExecVerdict) -> ExecutionNote:
    """Put an execution and its verdict into bounded words."""
    return ExecutionNote(
        execution.id,
        execution.program,
        shown(execution.argv),
        execution.cwd,
        verdict.verdict,
        verdict.reason,
        verdict.justification,
        verdict.origin,
        verdict.not_escalated,
    )


def shown(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return arguments as they are told to people: their number and length bounded."""
    words = tuple(
        word if len(word) <= MAX_WORD_CHARS else f"{word[:MAX_WORD_CHARS]}…" for word in argv[:MAX_ARGUMENTS]
    )
    return words if len(argv) <= MAX_ARGUMENTS else (*words, "…")

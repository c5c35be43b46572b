"""Collects the verdicts of one process, to report when it ends. Pure.

It only counts plain runs. Of the others it keeps the first: they show what a command does again and again,
and memory stays bounded.
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
"""An entry has at most 32 words of 1 KiB, so 100 entries take at most 3.2 MiB, and usually a few KiB."""


class History:
    """The verdicts on the executions of one process."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self.counts: dict[Verdict, int] = dict.fromkeys(Verdict, 0)
        """The number of executions by verdict, including plain runs."""
        self.entries: list[ExecutionNote] = []
        """The first executions that were not plain runs."""
        self.total = 0
        """The number of executions that were not plain runs."""

    def count_plain_run(self) -> None:
        """Count an execution that nobody decided on."""
        self.counts[Verdict.RUN] += 1

    def add(self, execution: Execution, verdict: ExecVerdict) -> None:
        """Note the verdict on an execution."""
        self.counts[verdict.verdict] += 1
        if verdict.is_plain:
            return
        self.total += 1
        if len(self.entries) < self._max_entries:
            self.entries.append(note_of(execution, verdict))

    def summary(self) -> ExecutionSummary:
        """Return a summary of the notes so far."""
        return ExecutionSummary(tuple(self.entries), self.total, dict(self.counts))


def note_of(execution: Execution, verdict: ExecVerdict) -> ExecutionNote:
    """Describe an execution and its verdict in bounded text."""
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
    """Return arguments as people see them, bounded in number and length."""
    words = tuple(
        word if len(word) <= MAX_WORD_CHARS else f"{word[:MAX_WORD_CHARS]}…" for word in argv[:MAX_ARGUMENTS]
    )
    return words if len(argv) <= MAX_ARGUMENTS else (*words, "…")

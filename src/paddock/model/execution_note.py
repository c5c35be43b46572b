"""What became of the programs that a process executed, as it is told in the end."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from paddock.model.decision import Origin
from paddock.model.verdict import Verdict


class ExecutionNote(Struct, frozen=True):
    """One execution that somebody or something decided on. Its text may hold lone surrogates."""

    exec_id: str
    program: str
    argv: tuple[str, ...]
    """Long ones are cut, and say so by `…`."""
    cwd: str
    verdict: Verdict
    reason: str
    """One sentence for people."""
    justification: str | None = None
    """Why, in the words of the author of the rule that decided."""
    origin: Origin | None = None
    """Where that rule stands."""
    not_escalated: str | None = None
    """Why it ran in the sandbox though a rule or an answer would have let it out."""


class ExecutionSummary(Struct, frozen=True):
    """The executions of a process."""

    notes: tuple[ExecutionNote, ...]
    """The first of those that were not plain runs."""
    total: int
    """How many were not plain runs."""
    counts: Mapping[Verdict, int]
    """All, the plain runs included."""

"""Outcomes of the programs that a process executed, as reported when the process ends."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from paddock.model.decision import Origin
from paddock.model.verdict import Verdict


class ExecutionNote(Struct, frozen=True):
    """One execution that a person, a rule or a hook decided on. Its text may hold lone surrogates."""

    exec_id: str
    program: str
    argv: tuple[str, ...]
    """The command; a long one is cut and ends with `…`."""
    cwd: str
    verdict: Verdict
    reason: str
    """One sentence for people."""
    justification: str | None = None
    """The reason, in the words of the author of the rule that decided."""
    origin: Origin | None = None
    """The location of that rule."""
    not_escalated: str | None = None
    """Why it ran in the sandbox although a rule or an answer would have let it out."""


class ExecutionSummary(Struct, frozen=True):
    """The executions of a process."""

    notes: tuple[ExecutionNote, ...]
    """The first executions that were not plain runs."""
    total: int
    """Number of executions that were not plain runs."""
    counts: Mapping[Verdict, int]
    """Number of executions of each kind, including plain runs."""

"""Sums up for `paddock run` the programs that rules or answers decided on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from paddock.cli.exec_question import command_text, reason_text
from paddock.model.execution_note import ExecutionNote, ExecutionSummary
from paddock.model.verdict import Verdict

SHOWN: Final = 10
"""Commands that are named of each kind."""

_WORDS: Final = {Verdict.ESCALATE: "escalated", Verdict.DENY: "denied"}


def summary_lines(summary: ExecutionSummary) -> Iterator[str]:
    """Yield what was escalated and denied, a line for each command and reason."""
    for verdict, word in _WORDS.items():
        commands = Counter(_text(note) for note in summary.notes if note.verdict is verdict)
        shown = dict(list(commands.items())[:SHOWN])
        for text, count in shown.items():
            yield f"{word} {text}" if count == 1 else f"{word} {count} times {text}"
        if (more := summary.counts[verdict] - sum(shown.values())) > 0:
            yield f"{word} {more} more"


def _text(note: ExecutionNote) -> str:
    command = command_text(note.program, note.argv)
    return f"{command} ({reason_text(note.reason, note.program, note.argv)})"

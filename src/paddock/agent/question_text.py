"""A question as text for a person. Pure.

Whatever a command, a path or a model says is shown on the line that it belongs to: control characters, ends
of lines and marks of writing direction are escaped, so that nothing can look like another line of the
question.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from paddock.agent.approval import ApprovalRequest
from paddock.printable import printable


def question_lines(request: ApprovalRequest) -> Iterator[str]:
    """Yield the question, one printable line each."""
    if request.is_program:
        yield "Let a running command execute this program?"
    else:
        yield "Run this again?" if request.is_retry else f"Allow {request.tool}?"
    yield f"  command:   {shown_command(request.command)}"
    if request.called is not None:
        yield f"  called:    {printable(request.called)}"
    if not request.is_exact:
        yield "  beware:    some of it can't be shown; � stands for other characters"
    if request.stdin is not None:
        yield from _text_lines("input", request.stdin)
    if request.patch is not None:
        yield from _text_lines("change", request.patch)
    if request.is_terminal:
        yield "  input:     whatever the model types, as long as it runs"
    yield f"  directory: {printable(request.cwd)}"
    yield f"  because:   {printable(request.reason)}"
    if request.rule is not None:
        yield f"  rule:      {printable(request.rule)}"
    for denial in request.denials:
        target = "something" if denial.target is None else printable(denial.target)
        rule = f" ({printable(denial.rule)})" if denial.rule is not None else ""
        yield f"  denied:    {denial.kind} {target}{rule}"
    if request.justification:
        yield f"  the model: {printable(request.justification)}"
    for change in request.changes:
        yield f"  yes means: {printable(change)}"
    if request.proposed_prefix:
        yield f"  always:    a rule allows `{shown_command(request.proposed_prefix)} …` from now on."


def _text_lines(label: str, text: str) -> Iterator[str]:
    """Yield all of a text, each line marked, so that none looks like another part of the question."""
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        yield f"  {f'{label}:' if number == 0 else '':<10} | {printable(line)}"


def shown_command(command: tuple[str, ...]) -> str:
    """Return a command as one line that a shell would read as the same words, but for what is escaped."""
    return printable(shlex.join(command))

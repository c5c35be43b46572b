"""A question as text for a person. Pure.

Whatever a command, a path or a model says is shown on the line that it belongs to. No two commands, inputs or
changes are shown alike: control characters, ends of lines and marks of writing direction are escaped, and so
is a backslash that could be taken for the beginning of an escape. What is not in ASCII is shown once more,
with every such character written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from paddock.agent.approval import ApprovalRequest
from paddock.printable import printable
from paddock.quotation import in_ascii, is_long, quoted, quoted_line, quoted_words


def question_lines(request: ApprovalRequest) -> Iterator[str]:
    """Yield the question, one printable line each. A long one says so at its beginning and at its end."""
    if request.is_program:
        title = "Let a running command execute this program?"
    else:
        title = "Run this again?" if request.is_retry else f"Allow {request.tool}?"
    body = list(_body(request))
    if not is_long((title, *body)):
        return chain((title,), body)
    size = sum(map(len, body))
    beware = f"  beware:    the question has {size} characters on {len(body)} lines:"
    return chain(
        (title, f"{beware} read it to its end"), body, (f"{beware} its beginning may be out of sight",)
    )


def _body(request: ApprovalRequest) -> Iterator[str]:
    yield from _word_lines("command", request.command)
    if request.called is not None:
        yield from _word_lines("called", (request.called,))
    if not request.is_exact:
        yield "  beware:    some of it can't be shown; � stands for other characters"
    if request.stdin is not None:
        yield from _text_lines("input", request.stdin)
        if not request.stdin.endswith("\n"):
            yield "             \\ no end of line"
    if request.patch is not None:
        yield from _text_lines("change", request.patch)
    if request.is_terminal:
        yield "  input:     whatever the model types, as long as it runs"
    yield from _word_lines("directory", (request.cwd,))
    yield from _sentence_lines("because", request.reason)
    if request.rule is not None:
        yield from _sentence_lines("rule", request.rule)
    for denial in request.denials:
        target = "something" if denial.target is None else quoted(denial.target)
        rule = f" ({denial.rule})" if denial.rule is not None else ""
        yield from _sentence_lines("denied", f"{denial.kind} {target}{rule}")
    if request.justification:
        yield from _sentence_lines("the model", request.justification)
    for change in request.changes:
        yield from _sentence_lines("yes means", change)
    if request.proposed_prefix:
        yield f"  always:    a rule allows `{quoted_words(request.proposed_prefix)} …` from now on."
        yield from _ascii_lines(request.proposed_prefix)


def _word_lines(label: str, words: Sequence[str]) -> Iterator[str]:
    yield f"  {f'{label}:':<10} {quoted_words(words)}"
    yield from _ascii_lines(words)


def _sentence_lines(label: str, text: str) -> Iterator[str]:
    yield f"  {f'{label}:':<10} {printable(text)}"
    yield from _ascii_lines((text,))


def _ascii_lines(words: Sequence[str]) -> Iterator[str]:
    if (written_out := in_ascii(words)) is not None:
        yield f"  in ASCII:  {written_out}"


def _text_lines(label: str, text: str) -> Iterator[str]:
    """Yield all of a text, each line marked, so that none looks like another part of the question."""
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        yield f"  {f'{label}:' if number == 0 else '':<10} | {quoted_line(line)}"
        if (written_out := in_ascii((line,))) is not None:
            yield f"  in ASCII:  = {written_out}"

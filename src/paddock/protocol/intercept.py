"""The `intercept` object of `process/start`: rules about the programs that a process executes.

The server reports the outcomes in `process/exec` and at the end.

Policy stays with the caller, who sends the rules themselves, not names of files. They grant
access, so the server refuses unknown members.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from paddock.model.decision import Action, Origin
from paddock.model.execution_note import ExecutionNote, ExecutionSummary
from paddock.model.verdict import Verdict
from paddock.protocol.bound import MAX_DISTRUSTED, MAX_ENTRIES, MAX_RULE_POSITIONS, MAX_RULE_WORDS
from paddock.protocol.structure import Params, Result, Unsigned

Words = Annotated[list[str], Meta(min_length=1, max_length=MAX_RULE_WORDS)]
"""The words that may stand at one position of a command."""

Pattern = Annotated[list[Words], Meta(min_length=1, max_length=MAX_RULE_POSITIONS)]
"""The positions of a command from its program on."""


class InterceptRule(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule about commands, as its file declares it."""

    pattern: Pattern
    """For each position of a command, the words that may stand there, the program first."""
    action: Action
    """`allow` lets it out of the sandbox, `prompt` asks, `forbidden` denies it."""
    path: str
    """The file that the rule is in."""
    line: Unsigned
    """Its line in that file."""
    justification: str | None = None
    """The reason, in the words of the rule's author."""
    unless: Annotated[list[Pattern], Meta(max_length=MAX_RULE_POSITIONS)] = []
    """Commands that the rule is not about."""
    free_flags: bool = False
    """Whether flags of the pattern may stand anywhere, and other flags between its words."""


class InterceptParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to decide on the programs that a sandboxed process executes."""

    rules: Annotated[list[InterceptRule], Meta(max_length=MAX_ENTRIES)] = []
    """The rules. The strictest that fits decides; a program that no rule fits runs in the sandbox. All rules
    together name at most 4096 programs."""
    host_executables: Annotated[dict[str, list[str]], Meta(max_length=MAX_ENTRIES)] = {}
    """Programs by name, with the only paths under which rules about the name apply."""
    broken_files: Annotated[list[str], Meta(max_length=MAX_ENTRIES)] = []
    """Files of rules that could not be loaded. If there are any, the server asks where no rule fits."""
    distrusted_paths: Annotated[list[str], Meta(max_length=MAX_DISTRUSTED)] = []
    """Absolute paths that commands under other profiles may write. No program in them leaves the sandbox, as
    if this process could write there itself."""
    on_prompt: Literal["ask", "deny"] = "ask"
    """Whether `prompt` asks the client with `process/execApproval`, which must be among its `requests`, or
    denies."""
    prompt_timeout_ms: Unsigned | None = None
    """How long to wait for an answer; null for as long as the process lives."""
    strict: bool = False
    """Whether a program in the sandbox runs with exactly the path and arguments of the decision, even if
    another thread of its caller changes them meanwhile. Each program then takes longer to start."""


# --- outcomes ---------------------------------------------------------------


class ExecRule(Result, frozen=True, kw_only=True):
    """The location of a rule."""

    path: str
    """The file."""
    line: int
    """Its line in that file."""


class ExecEntry(Result, frozen=True, kw_only=True):
    """A program that a process wanted to execute. U+FFFD stands for bytes that are not UTF-8."""

    exec_id: str
    """The id of the execution in this process."""
    program: str
    """The absolute path of the program, links resolved."""
    argv: list[str]
    """Its arguments, its name first; too many or too long ones are cut, and end with `…`."""
    cwd: str
    """The working directory."""
    verdict: Verdict
    """Whether it ran in the sandbox, ran outside, or was denied."""
    reason: str
    """What decided, in one sentence."""
    justification: str | None = None
    """Why, in the words of the author of the rule that decided."""
    rule: ExecRule | None = None
    """The rule that decided."""
    not_escalated: str | None = None
    """Why it ran in the sandbox although a rule or an answer would have let it out."""


class ExecSummary(Result, frozen=True, kw_only=True):
    """The executions of a process."""

    entries: list[ExecEntry]
    """The first executions that a rule or an answer decided on."""
    total: int
    """Number of executions that a rule or an answer decided on."""
    run: int
    """Number of all executions that ran in the sandbox."""
    escalate: int
    """Number of executions that ran outside it."""
    deny: int
    """Number of denied executions."""


class ExecEvent(Result, frozen=True, kw_only=True):
    """`process/exec`, by opt-in: a rule or an answer has decided on a program."""

    process_id: str
    execution: ExecEntry
    """The program and its outcome."""


def encode_note(note: ExecutionNote) -> ExecEntry:
    """Encode an execution."""
    return ExecEntry(
        exec_id=note.exec_id,
        program=_encodable(note.program),
        argv=[_encodable(word) for word in note.argv],
        cwd=_encodable(note.cwd),
        verdict=note.verdict,
        reason=_encodable(note.reason),
        justification=None if note.justification is None else _encodable(note.justification),
        rule=None if note.origin is None else ExecRule(path=note.origin.path, line=note.origin.line),
        not_escalated=None if note.not_escalated is None else _encodable(note.not_escalated),
    )


def encode_summary(summary: ExecutionSummary | None) -> ExecSummary | UnsetType:
    """Encode the executions of a process; leave the field out if they were not intercepted."""
    if summary is None:
        return UNSET
    return ExecSummary(
        entries=[encode_note(note) for note in summary.notes],
        total=summary.total,
        run=summary.counts[Verdict.RUN],
        escalate=summary.counts[Verdict.ESCALATE],
        deny=summary.counts[Verdict.DENY],
    )


def decode_summary(summary: ExecSummary | UnsetType) -> ExecutionSummary | None:
    """Decode a summary; None if the server sent none."""
    if summary is UNSET:
        return None
    counts = {Verdict.RUN: summary.run, Verdict.ESCALATE: summary.escalate, Verdict.DENY: summary.deny}
    return ExecutionSummary(tuple(map(_note, summary.entries)), summary.total, counts)


def _note(entry: ExecEntry) -> ExecutionNote:
    return ExecutionNote(
        entry.exec_id,
        entry.program,
        tuple(entry.argv),
        entry.cwd,
        entry.verdict,
        entry.reason,
        entry.justification,
        None if entry.rule is None else Origin(entry.rule.path, entry.rule.line),
        entry.not_escalated,
    )


def _encodable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""Tells a model of a command or of a refused file, in the same words in every framework."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from paddock.agent.head_tail import HeadTail
from paddock.agent.orchestrator import denial_note
from paddock.agent.truncation import BYTES_PER_TOKEN, cut
from paddock.client.completion import TimedOut, complete
from paddock.client.ending import Ending
from paddock.client.inbox import Output
from paddock.client.workspace import Workspace
from paddock.errors import PaddockError, RulesError, SpawnError
from paddock.model.decision import Decision
from paddock.model.denial import Denial, DenialKind
from paddock.sandbox.denial.keyword import SIGSYS_STATUS
from paddock.sandbox.denial.named_failure import failures

OUTPUT_BYTES: Final = 100 * 1024
"""The most that a model reads of one command's output: its beginning and its end."""

TIMEOUT_S: Final = 120.0
"""The timeout of a command for which a model names none."""

SHELL: Final = ("bash", "-c")

NOT_STARTED: Final = 127
"""The status that shells give a program that does not exist."""

TIMED_OUT: Final = 124
"""The status that timeout(1) gives a command that it ended."""

EXPLAINED_BYTES: Final = 16 * 1024
"""How much of the end of a command's output is explained."""

EXPLAINING_S: Final = 10.0

_REFUSED: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
"""How a sandbox refuses a file: by what is mounted there, or by permissions."""


class Outcome(Struct, frozen=True):
    """A command of a model, however it ended."""

    output: str
    """Both streams, in the order in which they arrived."""
    exit_code: int | None
    """The exit status; None if it timed out."""
    is_cut: bool = False
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the text for the model: the output, and what the sandbox or a limit did."""
        if not self.notes:
            return self.output
        gap = "" if not self.output or self.output.endswith("\n") else "\n"
        return f"{self.output}{gap}" + "\n".join(f"Note: {note}" for note in self.notes)


class _Transcript:
    """Both streams of a process, bounded."""

    def __init__(self, limit_bytes: int) -> None:
        self.kept = HeadTail(limit_bytes)

    def add(self, output: Output) -> None:
        """Take one piece."""
        self.kept.add(output.data)


async def run_line(
    workspace: Workspace,
    line: str,
    *,
    timeout_s: float | None = TIMEOUT_S,
    limit_bytes: int = OUTPUT_BYTES,
    cwd: str = "",
    env: Mapping[str, str] | None = None,
    shell: Sequence[str] = SHELL,
) -> Outcome:
    """Run a line of shell to its end. Report a timeout, a denial or a missing shell in the outcome; do not
    raise it."""
    try:
        process = await workspace.start([*shell, line], cwd=cwd, env=env)
    except SpawnError as error:
        return Outcome("", NOT_STARTED, notes=(str(error),))
    transcript = _Transcript(limit_bytes)
    try:
        await complete(process, transcript, None, timeout_s)
    except TimedOut:
        output, is_cut = _shown(transcript.kept, limit_bytes)
        return Outcome(output, None, is_cut, (timeout_note(timeout_s or 0),))
    exit_code = await process.wait()
    output, is_cut = _shown(transcript.kept, limit_bytes)
    notes = ending_notes(process.ending or Ending(exit_code), workspace)
    return Outcome(output, exit_code, is_cut, notes)


def bounded(data: bytes, limit_bytes: int = OUTPUT_BYTES) -> tuple[str, bool]:
    """Return the part of some output that a model reads, and whether it was shortened."""
    kept = HeadTail(limit_bytes)
    kept.add(data)
    return _shown(kept, limit_bytes)


def _shown(kept: HeadTail, limit_bytes: int) -> tuple[str, bool]:
    shown = cut(kept, limit_bytes // BYTES_PER_TOKEN)
    return shown.text, shown.is_truncated


async def explained(
    workspace: Workspace, line: str, output: str, exit_code: int, *, cwd: str = ""
) -> tuple[str, ...]:
    """Return what the sandbox did to a line run by a program that keeps running, such as a shell.

    A server explains the output of a process when the process ends. So another process repeats the output, in
    the same sandbox and with the same line among its arguments, after an `exit`.
    """
    words = output.encode("utf-8", "replace")[-EXPLAINED_BYTES:]
    is_in_trouble = exit_code == SIGSYS_STATUS or any(failures(words.decode("utf-8", "replace")))
    if exit_code == 0 or not is_in_trouble:
        return ()
    script = f"cat >&2; exit {exit_code}\n{line}"
    try:
        done = await workspace.run([*SHELL, script], input=words, cwd=cwd, timeout_s=EXPLAINING_S)
    except (PaddockError, OSError):
        # The program's own words are in the output.
        return ()
    return ending_notes(done.ending, workspace)


def timeout_note(timeout_s: float) -> str:
    """Return the note for a model about a command that timed out."""
    return f"The command did not end within {timeout_s:g} s and was killed, with everything it started."


def ending_notes(ending: Ending, workspace: Workspace) -> tuple[str, ...]:
    """Return notes on what the sandbox had to do with the end of a command; empty if it had nothing to do
    with it."""
    if not ending.sandbox_denied and not ending.denials:
        return ()
    return (denial_note(ending.denials), _advice(_work_directory(workspace)))


def ending_text(ending: Ending, workspace: Workspace) -> str:
    """Return `ending_notes` as lines to put behind a command's own errors."""
    return "".join(f"Note: {note}\n" for note in ending_notes(ending, workspace))


def file_note(error: OSError, kind: DenialKind, path: str, workspace: Workspace) -> str:
    """Return the note for a model about a file operation that failed."""
    if error.errno == errno.EROFS:
        return denied_file(kind, path, _work_directory(workspace))
    if error.errno in _REFUSED:
        return f"{error}. {_advice(_work_directory(workspace))}"
    return str(error)


@contextmanager
def told_file(kind: DenialKind, path: str, workspace: Workspace) -> Iterator[None]:
    """Give a refusal of the file operation inside the words for a model, as a builtin PermissionError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        number = errno.EPERM if error.errno == errno.EPERM else errno.EACCES
        raise OSError(number, file_note(error, kind, path, workspace), path) from error


def denied_file(kind: DenialKind, path: str, directory: str) -> str:
    """Return the note for a model about a file that the profile denies it."""
    return f"{denial_note((Denial(kind, path, None, is_certain=True),))} {_advice(directory)}"


def forbidden(decision: Decision) -> str:
    """Return the note for a model about a command that the rules forbid."""
    return f"Not done: {decision.reason}. Do it another way, or ask the user; trying again changes nothing."


def not_approved(why: str) -> str:
    """Return the note for a model about a command that nobody has approved."""
    return f"Not approved: {why}. Do it another way, or ask the user."


def unreadable_rules(error: RulesError) -> str:
    """Return the note for a model about a command that no rules could decide on."""
    return f"Not done: the rules can't be read: {error}. Ask the user; trying again changes nothing."


def _work_directory(workspace: Workspace) -> str:
    return "its directory" if workspace.opened is None else workspace.opened.directory


def _advice(directory: str) -> str:
    return f"Work in {directory}, or ask the user to grant more; trying again changes nothing."

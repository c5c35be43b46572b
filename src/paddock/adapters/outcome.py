"""Tells a model of a command or of a refused file, in the same words in every framework."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from paddock.agent.head_tail import HeadTail
from paddock.agent.orchestrator import denial_note
from paddock.agent.truncation import BYTES_PER_TOKEN, cut
from paddock.client.completion import TimedOut, complete
from paddock.client.ending import Ending
from paddock.client.inbox import Output
from paddock.client.workspace import Workspace
from paddock.errors import SpawnError
from paddock.model.denial import Denial, DenialKind

OUTPUT_BYTES: Final = 100 * 1024
"""What a model reads of one command at most: its beginning and its end."""

TIMEOUT_S: Final = 120.0
"""For a command of a model that does not say how long it may take."""

SHELL: Final = ("bash", "-c")

NOT_STARTED: Final = 127
"""What shells say of a program that is not there."""

TIMED_OUT: Final = 124
"""What timeout(1) says of a command that it ended."""


class Outcome(Struct, frozen=True):
    """A command of a model, however it ended."""

    output: str
    """Both streams, in the order in which they came."""
    exit_code: int | None
    """None if its time was over."""
    is_cut: bool = False
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return what the model reads: the output, and what the sandbox or a limit had to do with it."""
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
    """Run a line of shell to its end. A time-out, a denial and a missing shell are told, not raised."""
    try:
        process = await workspace.start([*shell, line], cwd=cwd, env=env)
    except SpawnError as error:
        return Outcome("", NOT_STARTED, notes=(str(error),))
    transcript = _Transcript(limit_bytes)
    try:
        await complete(process, transcript, None, timeout_s)
    except TimedOut:
        shown = cut(transcript.kept, limit_bytes // BYTES_PER_TOKEN)
        note = f"The command did not end within {timeout_s:g} s and was killed, with everything it started."
        return Outcome(shown.text, None, shown.is_truncated, (note,))
    exit_code = await process.wait()
    shown = cut(transcript.kept, limit_bytes // BYTES_PER_TOKEN)
    notes = ending_notes(process.ending or Ending(exit_code), workspace)
    return Outcome(shown.text, exit_code, shown.is_truncated, notes)


def ending_notes(ending: Ending, workspace: Workspace) -> tuple[str, ...]:
    """Return what the sandbox had to do with the end of a command; nothing if it had nothing."""
    if not ending.sandbox_denied and not ending.denials:
        return ()
    return (denial_note(ending.denials), _advice(workspace))


def file_note(error: OSError, kind: DenialKind, path: str, workspace: Workspace) -> str:
    """Return what a model reads of a file that it could not have."""
    if error.errno == errno.EROFS:
        denied = denial_note((Denial(kind, path, None, is_certain=True),))
        return f"{denied} {_advice(workspace)}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{error}. {_advice(workspace)}"
    return str(error)


def _advice(workspace: Workspace) -> str:
    there = workspace.opened
    place = "its directory" if there is None else there.directory
    return f"Work in {place}, or ask the user to grant more; trying again changes nothing."

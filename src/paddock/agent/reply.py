"""A tool's reply to a model: one text, and the same facts as fields. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct


class Reply(Struct, frozen=True):
    """The reply to a call of any tool; `str(reply)` is its text.

    Fields that only a command has are None, or empty, for every other tool.
    """

    output: str
    """The result, without the lines about how it came about."""
    is_error: bool = False
    """Whether the call did nothing, or less than the model wanted. A command that fails is not an error."""
    wall_time_s: float | None = None
    chunk_id: str | None = None
    """Six hexadecimal digits; None if no process was involved."""
    exit_code: int | None = None
    """The exit status of a process that ended in this call, if it is known."""
    session_id: int | None = None
    """The number of a process that still runs, with which to ask for more."""
    original_tokens: int | None = None
    """An estimate for everything that the process wrote since the previous call."""
    notes: tuple[str, ...] = ()
    """How the sandbox or an approval affected the call, one sentence each."""

    @property
    def text(self) -> str:
        """Return what the model reads."""
        return "\n".join((*(f"Note: {note}" for note in self.notes), self.output))

    def __str__(self) -> str:
        return self.text

    @property
    def fields(self) -> dict[str, Any]:
        """Return the same facts for a program, ready for JSON."""
        return {"output": self.output}


class ExecReply(Reply, frozen=True):
    """The outcome of `exec_command` or `write_stdin`: a command that ran, however it ended."""

    @property
    def text(self) -> str:
        """Return what the model reads."""
        return "\n".join(self._lines())

    def __str__(self) -> str:
        return self.text

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of the tools' output schema."""
        fields = {
            "chunk_id": self.chunk_id,
            "wall_time_seconds": self.wall_time_s,
            "exit_code": self.exit_code,
            "session_id": self.session_id,
            "original_token_count": self.original_tokens,
            "output": self.output,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _lines(self) -> Iterator[str]:
        if self.chunk_id is not None:
            yield f"Chunk: {self.chunk_id}"
        if self.wall_time_s is not None:
            yield f"Time: {self.wall_time_s:.4f} s"
        if self.exit_code is not None:
            yield f"Exit code: {self.exit_code}"
        if self.session_id is not None:
            yield f"Still running, session_id: {self.session_id}"
        if self.original_tokens is not None:
            yield f"Tokens of all output: {self.original_tokens}"
        yield from (f"Note: {note}" for note in self.notes)
        yield "Output:"
        yield self.output

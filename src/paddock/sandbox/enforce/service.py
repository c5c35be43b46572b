"""Services for a command while it runs, each in a thread of its own."""

from __future__ import annotations

from typing import Protocol

from paddock.model.denial import Trace


class Tracing(Protocol):
    """Watches the calls of a command while it runs."""

    file: int
    """For `trace=` of paddock-init. The caller owns it."""
    is_traced: bool
    """Whether it records refusals; otherwise it only decides on executions."""

    def begin(self) -> None:
        """Begin to trace, once the command has the other end."""
        ...

    def finish(self) -> Trace:
        """Stop tracing and return the record. Call it once; it blocks for a moment."""
        ...


class WrapperService(Protocol):
    """Answers the wrappers of one command. `begin` and `finish` it, or `discard` it instead."""

    file: int
    """For the command. The caller owns it."""

    def begin(self) -> None:
        """Begin to answer, once the command has the other end."""
        ...

    def finish(self) -> None:
        """Stop answering. Call it once; it blocks for a moment."""
        ...

    def discard(self) -> None:
        """Close everything, because no command will come."""
        ...

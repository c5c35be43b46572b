"""Services for a command while it runs, each in a thread of its own."""

from __future__ import annotations

from typing import Protocol


class WrapperService(Protocol):
    """Answers the wrappers of one command. `begin` and `finish` it, or `discard` it instead."""

    file: int
    """For the command. It is the caller's."""

    def begin(self) -> None:
        """Begin to answer: the command has the other end."""
        ...

    def finish(self) -> None:
        """End. Blocks for a moment; to be called once."""
        ...

    def discard(self) -> None:
        """Close everything: there will be no command."""
        ...

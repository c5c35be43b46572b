"""A command that a model may come back to, as the agent and its builder see it."""

from __future__ import annotations

from msgspec import Struct

from paddock.agent.live_process import LiveProcess


class CommandSession(Struct, frozen=True):
    """A command of an agent that has outlived its call."""

    session_id: int
    """The number by which the model knows it."""
    call_id: str
    """The call that started it."""
    live: LiveProcess
    argv: tuple[str, ...]
    cwd: str
    is_terminal: bool

    @property
    def is_running(self) -> bool:
        """Return whether the command still runs, as far as the agent knows."""
        return not self.live.has_exited

    @property
    def exit_code(self) -> int | None:
        """Return the exit status, 128+n for signal n; None while it runs, or if nobody will ever know it."""
        return None if self.live.ending is None else self.live.ending.exit_code

"""The commands of a session of the OpenAI Agents SDK that outlive the calls that started them.

`PaddockSandboxSession` in `openai_agents` owns them and ends them with the session.
"""

from __future__ import annotations

import time
from typing import Final

from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    process_id_to_prune_from_meta,
    resolve_pty_write_yield_time_ms,
)

from paddock.adapters.outcome import NOT_STARTED
from paddock.adapters.terminal import Terminal
from paddock.client.workspace import Workspace
from paddock.errors import SpawnError

YIELD_S: Final = 10.0
"""How long a call that starts a command waits for its end, unless the model says otherwise."""

POLL_S: Final = 0.25
"""How long a call that writes to a command waits for what it says, unless the model says otherwise."""


class Terminals:
    """The running commands of one session, at most as many as the SDK allows."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.running: dict[int, Terminal] = {}
        """The commands by the numbers that models know them by."""

    async def start(
        self, argv: list[str], *, tty: bool, yield_time_s: float | None, limit_tokens: int | None
    ) -> PtyExecUpdate:
        """Start a command and wait a moment for it. The update reports a program that does not exist."""
        try:
            process = await self._workspace.start(argv, stdin=not tty, tty=tty)
        except SpawnError as error:
            return PtyExecUpdate(None, f"{error}\n".encode(), NOT_STARTED, None)
        self._make_room()
        number = allocate_pty_process_id(set(self.running))
        self.running[number] = Terminal(process, self._workspace)
        wait_ms = clamp_pty_yield_time_ms(round(1000 * (yield_time_s or YIELD_S)))
        return await self._update(number, wait_ms, limit_tokens)

    async def write(
        self, number: int, text: str, *, yield_time_s: float | None, limit_tokens: int | None
    ) -> PtyExecUpdate:
        """Write to a running command, and wait a moment for what it says."""
        if text:
            await self.running[number].process.write(text.encode())
        wanted_ms = round(1000 * (yield_time_s or POLL_S))
        wait_ms = resolve_pty_write_yield_time_ms(yield_time_ms=wanted_ms, input_empty=not text)
        return await self._update(number, wait_ms, limit_tokens)

    def end_all(self) -> None:
        """Kill the commands that still run, with everything that they have started."""
        while self.running:
            self.running.popitem()[1].process.kill_now()

    def _make_room(self) -> None:
        """End the command that nobody has looked at for longest, if there are too many."""
        if len(self.running) < PTY_PROCESSES_MAX:
            return
        used = [(number, each.used_at_s, each.is_done) for number, each in self.running.items()]
        self.running.pop(process_id_to_prune_from_meta(used)).process.kill_now()

    async def _update(self, number: int, wait_ms: int, limit_tokens: int | None) -> PtyExecUpdate:
        terminal = self.running[number]
        output, tokens, is_over = await collect_pty_output(
            output_chunks=terminal.chunks,
            output_lock=terminal.lock,
            output_notify=terminal.end,
            is_done=lambda: terminal.is_done,
            yield_time_ms=wait_ms,
            max_output_tokens=limit_tokens,
            settle_output=terminal.settle,
        )
        terminal.used_at_s = time.monotonic()
        if is_over:
            self.running.pop(number, None)
        return PtyExecUpdate(
            process_id=None if is_over else number,
            output=output,
            exit_code=terminal.process.exit_code if is_over else None,
            original_token_count=tokens,
        )

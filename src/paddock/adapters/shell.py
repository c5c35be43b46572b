"""A persistent Bash in a sandbox: it keeps directory, variables and jobs between the commands of a model."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from collections.abc import Sequence
from typing import Final

from paddock.adapters.conversation import Conversation, ConversationOver
from paddock.adapters.outcome import OUTPUT_BYTES, TIMEOUT_S, Outcome, bounded, explained, timeout_note
from paddock.client.workspace import Workspace

ARGV: Final = ("bash", "--noprofile", "--norc")
NEW_SHELL: Final = "The next command gets a new shell."


class Shell:
    """One shell of a workspace, started by the first command. `close` it before the workspace."""

    def __init__(self, workspace: Workspace, argv: Sequence[str] = ARGV) -> None:
        self._workspace = workspace
        self._argv = argv
        self._turn = asyncio.Lock()
        self._talk: Conversation | None = None

    async def run(
        self, line: str, *, timeout_s: float = TIMEOUT_S, limit_bytes: int = OUTPUT_BYTES
    ) -> Outcome:
        """Run a line of Bash to its end; others wait for their turn. The outcome reports a timeout or a
        denial.

        A command that takes too long, or whose caller is cancelled, ends the shell with everything in it.
        """
        async with self._turn:
            talk = await self._started()
            try:
                return await self._run(talk, line, timeout_s, limit_bytes)
            except TimeoutError:
                await self._end()
                output, is_cut = bounded(talk.take(), limit_bytes)
                return Outcome(output, None, is_cut, (timeout_note(timeout_s), NEW_SHELL))
            except BaseException:
                await self._end()
                raise

    async def close(self) -> None:
        """End the shell with everything in it. The next command starts another. Idempotent."""
        async with self._turn:
            await self._end()

    async def _run(self, talk: Conversation, line: str, timeout_s: float, limit_bytes: int) -> Outcome:
        mark = secrets.token_hex(16)
        # As one word: an incomplete command fails, and does not wait for the rest of it.
        await talk.tell(
            f"eval {shlex.quote(line)} </dev/null 2>&1; printf '%s %d %s\\n' {mark} $? \"$PWD\"\n"
        )
        try:
            found = await talk.answer(re.compile(rb"%b (\d+) (.*)\n" % mark.encode()), timeout_s)
        except ConversationOver:
            return await self._ended(talk, line, limit_bytes)
        output, is_cut = bounded(talk.take(found), limit_bytes)
        exit_code, directory = int(found[1]), found[2].decode("utf-8", "surrogateescape")
        notes = await explained(self._workspace, line, output, exit_code, cwd=directory)
        return Outcome(output, exit_code, is_cut, notes)

    async def _ended(self, talk: Conversation, line: str, limit_bytes: int) -> Outcome:
        self._talk = None
        output, is_cut = bounded(talk.take(), limit_bytes)
        exit_code = talk.process.exit_code
        notes = await explained(self._workspace, line, output, exit_code or 0)
        return Outcome(output, exit_code, is_cut, (*notes, "The command ended its shell.", NEW_SHELL))

    async def _started(self) -> Conversation:
        if self._talk is not None and self._talk.is_over:
            await self._end()
        if self._talk is None:
            self._talk = Conversation(await self._workspace.start(self._argv, stdin=True))
        return self._talk

    async def _end(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.end()

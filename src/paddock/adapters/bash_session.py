"""Bash on a terminal in a sandbox, as a person uses it: callers can type to the programs that run in it.

The prompt shows that a command has ended, its status and its directory. It holds a word that no command can
know in advance.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.adapters.conversation import Conversation
from paddock.adapters.outcome import explained
from paddock.agent.unified_exec import ENVIRONMENT
from paddock.client.workspace import Workspace
from paddock.model.terminal import TerminalSize

START_S: Final = 30.0
"""How long the user's own startup files may take before Bash's first prompt."""

SIZE: Final = TerminalSize(rows=24, cols=200)
INTERRUPT, SUSPEND = "\x03", "\x1a"
"""The characters that a terminal turns into SIGINT and SIGTSTP."""

_ESCAPES: Final = re.compile(rb"\x1b[@-_][0-?]*[ -/]*[@-~]")
_PLAIN: Final = frozenset(map(chr, range(0x20, 0x7F))) - frozenset("\\'!")

SETTINGS: Final = (
    "stty -echo",
    "bind 'set disable-completion on'",
    "bind 'set enable-bracketed-paste off'",
    "unset HISTFILE",
    "PS0= PS2=",
)
"""Keep typed text out of the output, and a tab a tab."""


class Observed(Struct, frozen=True):
    """The result of a line."""

    output: str
    exit_code: int | None
    """The exit status; None if the line is not known to have ended."""
    seen: str
    """The pattern that was found; empty if it was the prompt."""
    notes: tuple[str, ...] = ()


class BashSession:
    """One Bash. `start` it first and `close` it in the end; in between, one call at a time.

    Calls raise TimeoutError and leave the command running, and raise ConversationOver when Bash has ended.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._mark = secrets.token_hex(16)
        mark = self._mark.encode()
        # Commands can read the word in their shell. However often they write it, each part is read once.
        self._prompt = rb"%b(?P<status>\d+):(?P<cwd>(?:(?!%b)[^\n])*):%b" % (mark, mark, mark)
        self._talk: Conversation | None = None
        self._notice = ""
        """What Bash said of a program that it killed, for the output of the next line."""
        self._cwd = ""
        self._turn = asyncio.Lock()

    async def start(self, sources: Sequence[str], timeout_s: float) -> str:
        """Start Bash, let it read its startup files, and return its output."""
        process = await self._workspace.start(["bash"], env=ENVIRONMENT, tty=SIZE)
        self._talk = Conversation(process)
        # Before each prompt, because a file that a command sources may change it.
        prompt = f"PROMPT_COMMAND=\"PS1='{self._mark}\\$?:\\$PWD:{self._mark}'\""
        await self._told("; ".join([*SETTINGS, prompt]) + "\n")
        await self._observed((), START_S)
        if not sources:
            return ""
        return (await self.run("\n".join(f"source {_quoted(path)}" for path in sources), timeout_s)).output

    async def run(self, line: str, timeout_s: float | None, patterns: Sequence[str] = ()) -> Observed:
        """Run a line to its end, or until its output has one of the patterns."""
        async with self._turn:
            await self._told(f"eval {_quoted(line)}\n")
            seen = await self._observed(patterns, timeout_s)
            seen = replace(seen, output=self._notice + seen.output)
            self._notice = ""
        if not seen.exit_code:
            return seen
        notes = await explained(self._workspace, line, seen.output, seen.exit_code, cwd=self._cwd)
        return Observed(seen.output, seen.exit_code, seen.seen, notes)

    async def type(self, line: str, timeout_s: float | None, patterns: Sequence[str] = ()) -> Observed:
        """Type a line to the running program, and wait for the prompt or one of the patterns."""
        async with self._turn:
            await self._told(f"{line}\n")
            return await self._observed(patterns, timeout_s)

    async def restore(self) -> None:
        """Take the terminal back from a program that has left it in another state."""
        await self.run(SETTINGS[0], 5.0)

    async def interrupt(self, timeout_s: float, retries: int, patterns: Sequence[str] = ()) -> Observed:
        """Interrupt the running program; kill it if it ignores that."""
        async with self._turn:
            for _ in range(retries):
                await self._told(INTERRUPT)
                try:
                    return await self._observed(patterns, timeout_s)
                except TimeoutError:
                    continue
            await self._told(SUSPEND)
            stopped = await self._observed(patterns, timeout_s)
            # In the foreground Bash waits for its end, and tells of it.
            await self._told("kill -9 %% && fg; true\n")
            killed = await self._observed(patterns, timeout_s)
            self._notice = killed.output
        return Observed(stopped.output, killed.exit_code, killed.seen)

    async def close(self) -> None:
        """End Bash with everything in it. Idempotent."""
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.end()

    # --- inside -------------------------------------------------------------

    @property
    def _there(self) -> Conversation:
        assert self._talk is not None, "the session is not started"
        return self._talk

    async def _told(self, text: str) -> None:
        await self._there.tell(text)

    async def _observed(self, patterns: Sequence[str], timeout_s: float | None) -> Observed:
        prompt = re.compile(self._prompt)
        if patterns:
            wanted = (self._prompt, *(pattern.encode() for pattern in patterns))
            span, taken = await self._there.answer_to(wanted, timeout_s)
            output = _plain(self._there.take(taken[: span.start]))
            if span.index > 0:
                return Observed(output, None, patterns[span.index - 1])
            found = prompt.fullmatch(taken, span.start)
            assert found is not None
        else:
            found = await self._there.answer(prompt, timeout_s)
            output = _plain(self._there.take(found))
        self._cwd = found["cwd"].decode("utf-8", "surrogateescape")
        return Observed(output, int(found["status"]), "")


def _quoted(text: str) -> str:
    """Return a word of Bash that can be typed: no line end, and nothing that an editor of lines obeys."""
    plain = (
        each
        if each in _PLAIN
        else "".join(f"\\x{byte:02x}" for byte in each.encode("utf-8", "surrogateescape"))
        for each in text
    )
    return f"$'{''.join(plain)}'"


def _plain(data: bytes) -> str:
    return _ESCAPES.sub(b"", data).decode("utf-8", "backslashreplace").replace("\r\n", "\n")

"""Asks at the terminal about a program that a command wants to execute.

One question at a time. The command writes to the same terminal, and the terminal answers what the command
asks it. So none of the command's output is shown while a question is open (`screen`), and an answer is a
typed line: a word and Enter. Typed text comes from the task that reads the terminal (`feed`), or, where
standard input is something else, from the terminal itself.
"""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from paddock.cli.descriptor import STDIN, write_all
from paddock.cli.escape_filter import EscapeFilter
from paddock.cli.exec_question import question_text
from paddock.cli.message import beginning
from paddock.errors import RulesError
from paddock.model.verdict import Remember, Verdict
from paddock.printable import printable
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from paddock.quotation import quoted

TERMINAL: Final = "/dev/tty"

CHOICES: Final = (
    "[r]un in the sandbox, [e]scalate once, escalate for this [p]rocess,{always} or [d]eny (and why)? "
)

_RESET: Final = (
    "\x1b\\"  # the end of a string that the command has begun
    "\x1b[!p\x1b[?69l\x1b[?6l\x1b[r\x1b[?1049l"  # modes, margins, scroll region, the other screen
    "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"  # colours
    "\x1b[0m\x1b(B\x0f\x1b[?7h\x1b[?25h"  # visible text, in the usual letters
)
"""Undoes whatever the command has told the terminal (ECMA-48, ctlseqs of xterm)."""

_CLEAR: Final = "\x1b[H\x1b[2J"

_ERASE: Final = (b"\x7f", b"\x08")
_ENDS: Final = (b"\r", b"\n")
_INTERRUPT: Final = b"\x03"
_READ_BYTES: Final = 1024

Amend = Callable[[ExecApprovalParams], tuple[str, Callable[[], None]] | None]
"""For a question: the beginning of commands that can always be let out, and what writes it down, or None."""


class ExecPrompt:
    """Asks questions on the user's terminal. Call `close` at the end."""

    def __init__(self, terminal: int, amend: Amend) -> None:
        self._terminal = terminal
        self._amend = amend
        self._lock = asyncio.Lock()
        self._filter = EscapeFilter()
        self._keys: asyncio.Queue[bytes] | None = None
        self.screen = asyncio.Lock()
        """Held by the task that writes to the terminal; by a question, from its first line to its answer."""

    @classmethod
    def open(cls, amend: Amend) -> ExecPrompt | None:
        """Open the terminal of this process; None if it has none, so that nobody can answer."""
        try:
            return cls(os.open(TERMINAL, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY), amend)
        except OSError:
            return None

    def close(self) -> None:
        """Let go of the terminal."""
        os.close(self._terminal)

    def feed(self, data: bytes) -> bool:
        """Take everything that comes from the terminal; return whether it was for a question.

        An interrupt (Ctrl-C) answers the question, and is for the command too.
        """
        typed = self._filter.feed(data)
        if self._keys is None:
            return False
        for byte in typed:
            self._keys.put_nowait(bytes((byte,)))
        return _INTERRUPT not in typed

    async def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        """Ask, when no other question is open."""
        async with self._lock, self.screen:
            with self._typing() as keys:
                always = self._amend(params)
                offer = "" if always is None else f" [a]lways for `{always[0]} ...`,"
                choices = f"{quoted(params.program)}: {CHOICES.format(always=offer)}"
                self._show(self._clean_screen() + question_text(params) + choices)
                return await self._choice(keys, choices, None if always is None else always[1])

    async def _choice(
        self, keys: asyncio.Queue[bytes], choices: str, always: Callable[[], None] | None
    ) -> ExecApprovalResult:
        while (line := await self._line(keys)) is not None:
            word, _, reason = line.partition(" ")
            match word.lower():
                case "r" | "run":
                    return ExecApprovalResult(verdict=Verdict.RUN)
                case "e" | "escalate":
                    return ExecApprovalResult(verdict=Verdict.ESCALATE)
                case "p" | "process":
                    return ExecApprovalResult(verdict=Verdict.ESCALATE, remember=Remember.PROCESS)
                case "a" | "always" if always is not None:
                    self._write_down(always)
                    return ExecApprovalResult(verdict=Verdict.ESCALATE, remember=Remember.PROCESS)
                case "d" | "deny":
                    return ExecApprovalResult(verdict=Verdict.DENY, reason=reason.strip() or None)
            self._show(f"Type one of the letters in brackets, then Enter.\n{choices}")
        return ExecApprovalResult(verdict=Verdict.DENY, reason="interrupted")

    def _write_down(self, always: Callable[[], None]) -> None:
        try:
            always()
        except RulesError as error:
            self._show(f"{beginning('run')}{printable(str(error))}; it is let out in this run only\n")

    async def _line(self, keys: asyncio.Queue[bytes]) -> str | None:
        """Read a line; None if it was interrupted. A terminal that is not raw shows itself what is typed."""
        line = bytearray()
        while (key := await keys.get()) not in _ENDS:
            if key == _INTERRUPT:
                self._echo("\n")
                return None
            if key in _ERASE and line:
                erased = line.decode(errors="ignore")[-1:]
                line = line[: -len(erased.encode()) or -1]
                self._echo("\b \b")
            elif key >= b" " and key not in _ERASE:
                line += key
                self._echo(key)
        self._echo("\n")
        return line.decode(errors="replace").strip()

    def _clean_screen(self) -> str:
        """Return what moves all out of sight: the command may have painted a question of its own."""
        rows = os.get_terminal_size(self._terminal).lines or 24
        return f"{_RESET}\x1b[{rows};1H{chr(10) * rows}{_CLEAR}"

    def _echo(self, text: str | bytes) -> None:
        if not termios.tcgetattr(self._terminal)[3] & termios.ICANON:
            self._show(text)

    def _show(self, text: str | bytes) -> None:
        data = text.encode(errors="replace") if isinstance(text, str) else text
        # A raw terminal does not go back to the first column by itself.
        write_all(self._terminal, data.replace(b"\n", b"\r\n"))

    @contextmanager
    def _typing(self) -> Iterator[asyncio.Queue[bytes]]:
        """Receive what is typed during the block, and nothing that was typed before."""
        termios.tcflush(self._terminal, termios.TCIFLUSH)
        keys = self._keys = asyncio.Queue[bytes]()
        loop = asyncio.get_running_loop()
        reads_itself = not os.isatty(STDIN)
        if reads_itself:
            loop.add_reader(self._terminal, self._read)
        try:
            yield keys
        finally:
            self._keys = None
            if reads_itself:
                loop.remove_reader(self._terminal)

    def _read(self) -> None:
        self.feed(os.read(self._terminal, _READ_BYTES))

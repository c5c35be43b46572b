"""One execution: what is to be executed, by whom, where. Pure values.

Whoever makes one has read it from the caller's memory into its own, and holds the program open:
nothing here changes afterwards. Text is as Python decodes file names, with lone surrogates for
bytes that are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

_WORD_BYTES: Final = 64


class Execution(Struct, frozen=True):
    """A program that a process wants to become."""

    id: str
    """Which of the executions of its command."""
    program: str
    """Absolute, links resolved: the file that is held open."""
    called: str
    """Absolute, as the caller named it; what it leads to is `program`. It may have dots and links."""
    argv: tuple[str, ...]
    """What the program would get. The first word is the caller's choice, and only passed on."""
    cwd: str
    caller_pid: int
    caller: str | None = None
    """The program that asks, if it is known."""
    environment: Mapping[str, str] = field(default_factory=dict)
    interpreters: tuple[str, ...] = ()
    """Of a script: the program that its first line names, and the one that is named there in turn;
    absolute, links resolved."""
    is_genuine: bool = False
    """Whether the program that is held open, and each interpreter, is the file that its path leads to on the
    host: no file in memory, none that was removed, and none that only the sandbox sees."""
    is_executable: bool = True
    """Whether the kernel will execute it: a program or a script by its first bytes, and permitted. It refuses
    all else, and shells then read the file themselves."""
    is_first: bool = False
    """Whether it is the command itself, which was decided on when it was started."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return what follows the program's own name."""
        return self.argv[1:]

    @property
    def size_bytes(self) -> int:
        """Return about how much memory the words take, each with what Python keeps beside it."""
        return sum(map(len, self.argv)) + _WORD_BYTES * len(self.argv)

    @property
    def subject(self) -> Subject:
        """Return what a decision about the execution holds for."""
        return Subject(self.program, self.called, self.argv, self.cwd)


class Subject(Struct, frozen=True):
    """What two executions share if a decision about one is good for the other.

    The name that the caller chose counts: some programs do another thing under another name.
    """

    program: str
    called: str
    argv: tuple[str, ...]
    cwd: str

"""One execution: which program, on whose behalf, and where. Pure values.

The maker of an `Execution` has copied it from the caller's memory into its own, and holds the program open,
so nothing here changes afterwards. Text is as Python decodes file names, with lone surrogates for bytes that
are not UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

_WORD_BYTES: Final = 64


LINES_LIMIT: Final = 16
"""Lines of an execution that are looked at. The kernel follows five, and `env` begins a new count."""


class ScriptLine(Struct, frozen=True):
    """The first line of a script, or a program that `env` executes because of one."""

    interpreter: str
    """As the line has it, or as `env` finds it; it may be relative, and have dots and links."""
    argument: str | None = None
    """All that follows, which the interpreter gets as one word."""


class Execution(Struct, frozen=True):
    """A program that a process wants to become."""

    id: str
    """Identifies it among the executions of its command."""
    program: str
    """Absolute, links resolved: the file that is held open."""
    called: str
    """The absolute path by which the caller named it. It may have dots and links, and leads to `program`."""
    argv: tuple[str, ...]
    """The arguments that the program would get. The caller chooses the first word, which is only passed
    on."""
    cwd: str
    caller: str | None = None
    """The program that wants to execute it, if known."""
    environment: Mapping[str, str] = field(default_factory=dict)
    interpreters: tuple[str, ...] = ()
    """For a script, the program that its first line names, and the interpreter of that one in turn. For a
    script of `env`, also what that finds in PATH, and so on. Absolute, links resolved."""
    script_lines: tuple[ScriptLine, ...] = ()
    """The lines that name the interpreters, one for each. The kernel and `env` read them again when the
    script is executed."""
    is_genuine: bool = False
    """Whether the program that is held open, and each interpreter, is the file that its path leads to on the
    host: no file in memory, none that was removed, and none that only the sandbox sees."""
    is_executable: bool = True
    """Whether the kernel will execute it: it is a program or a script by its first bytes, and permitted.
    The kernel refuses anything else, and shells then read the file themselves."""
    is_first: bool = False
    """Whether it is the command itself, which the rules judged when it was started."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the arguments after the program's own name."""
        return self.argv[1:]

    @property
    def size_bytes(self) -> int:
        """Return roughly how much memory the words take, including Python's overhead for each."""
        return sum(map(len, self.argv)) + _WORD_BYTES * len(self.argv)

    @property
    def subject(self) -> Subject:
        """Return the key that a decision about the execution applies to."""
        return Subject(self.program, self.called, self.argv, self.cwd)


class Subject(Struct, frozen=True):
    """The properties that two executions share if a decision about one also applies to the other.

    The name that the caller chose counts: some programs behave differently under another name.
    """

    program: str
    called: str
    argv: tuple[str, ...]
    cwd: str

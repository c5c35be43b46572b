"""Where an agent's commands run and its files are: the seam below which the agent knows nothing.

An `Executor` is a server far away, a private server or a fake; nothing above can tell which. It starts
exactly what it is given, confines it as it is told, or refuses. Whether a sandbox was in the way is its word
alone (`Ending.sandbox_denied`, `Ending.denials`): no caller reads that out of a command's output.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal, Protocol

from msgspec import Struct, field

from paddock.client.confinement import Sandbox
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.files import Found, Tree
from paddock.client.inbox import Output
from paddock.protocol.fs import MetadataResult
from paddock.protocol.intercept import InterceptParams
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult


class PreparedExecSpec(Struct, frozen=True):
    """A start in which nothing is left to look up: the executor spawns exactly this, without a sandbox."""

    argv: tuple[str, ...]
    """The program by its own path, without links, and its arguments."""
    arg0: str
    """What the program sees as its own name."""
    cwd: str
    """The directory, without links."""
    env: Mapping[str, str]
    """Every variable."""


class ProgramRules(Struct, frozen=True):
    """The rules for each program that a command executes in its sandbox."""

    params: InterceptParams
    """The rules, for the executor."""
    decide: Callable[[ExecApprovalParams], Awaitable[ExecApprovalResult]]
    """Called for a program that the rules want somebody to be asked about; cancelled when that is over."""


class Command(Struct, frozen=True):
    """A command to start: plain words, without a shell of the executor's."""

    argv: tuple[str, ...]
    cwd: str
    """Absolute, on the executor's host."""
    env: Mapping[str, str] = field(default_factory=dict)
    """On top of what the executor gives every command."""
    sandbox: Sandbox | None = None
    """None runs it without one."""
    prepared: PreparedExecSpec | None = None
    """The start that `Executor.prepare` made of this command, to be spawned unchanged."""
    programs: ProgramRules | None = None
    """Only in a sandbox, and only where the executor intercepts."""
    is_terminal: bool = False
    has_stdin: bool = False
    """Whether it can be written to; a terminal always can."""


class RunningCommand(Protocol):
    """A command that was started. Its holder reads its output to the end, or terminates it."""

    def output(self) -> AsyncIterator[Output | Gap]:
        """Return what it writes, in order, until all of it has come; a Gap stands for what was lost.

        Iteration raises ProcessLost if the rest will never be known.
        """

    async def wait(self) -> Ending:
        """Return how it ended, as soon as that is known; output may still come. Raises ProcessLost."""

    async def write(self, data: bytes) -> None:
        """Write to its stdin or terminal. Raises StdinClosed, and ProcessLost."""

    async def close_stdin(self) -> None:
        """Let it read the end of its input."""

    async def interrupt(self) -> None:
        """Send SIGINT to its process group; nothing happens if it has ended."""

    def kill(self) -> None:
        """Ask for the end of its process group, without waiting."""


class FileAccess(Protocol):
    """Files on the executor's host, under one profile; `client.files.Files` says what each call does."""

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""

    async def read_head(self, path: str, limit_bytes: int) -> bytes:
        """Return the first bytes of a file, however long it is."""

    async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
        """Replace the content of a file, or create it."""

    async def edit(self, path: str, old: str, new: str, count: int) -> str:
        """Replace a text that occurs exactly so often; return the diff."""

    async def metadata(self, path: str) -> MetadataResult:
        """Return what a path is. Raises NotFound."""

    async def canonicalize(self, path: str) -> str:
        """Return the absolute path without links and dots. Raises NotFound."""

    async def way(self, path: str) -> list[str]:
        """Return each link that a path leads through, each directory that it leaves by `..`, and its end."""

    async def walk(self, path: str, *, max_depth: int = 0, max_entries: int = 0) -> Tree:
        """Return everything below a directory."""

    async def search(
        self,
        path: str,
        pattern: str,
        *,
        kind: Literal["content", "name"] = "content",
        regex: bool = False,
        case_sensitive: bool = True,
        hidden: bool = False,
        max_matches: int = 1000,
    ) -> Found:
        """Find lines or names."""

    async def create_directory(self, path: str) -> None:
        """Make a directory with its parents."""

    async def set_mode(self, path: str, mode: int) -> None:
        """Set the permissions of a file; where the executor has no such thing, nothing happens."""

    async def remove(self, path: str, *, recursive: bool = True) -> None:
        """Remove a file or a directory."""


class Executor(Protocol):
    """Starts commands and works with files."""

    @property
    def identity(self) -> str:
        """Return which host and user this is; approvals for one do not count for another."""

    @property
    def shell(self) -> str:
        """Return the path of the user's shell there."""

    @property
    def cwd(self) -> str:
        """Return the directory that commands run in unless they say otherwise."""

    @property
    def temporary_directory(self) -> str | None:
        """Return what TMPDIR names there, if it names anything."""

    @property
    def intercepts(self) -> bool:
        """Return whether the executor takes `Command.programs`."""

    async def search_path(self, sandbox: Sandbox | None) -> str | None:
        """Return PATH as commands have it that run without a sandbox; None if they have none.

        It reads what it needs for that in `sandbox`. Raises RequestError and RunTimeout.
        """

    async def prepare(self, command: Command, sandbox: Sandbox | None) -> PreparedExecSpec | None:
        """Look up all that a start without a sandbox would look up; None where it starts no prepared ones.

        It reads what it needs for that in `sandbox`.
        """

    async def start(self, command: Command) -> RunningCommand:
        """Start a command; return once it runs, in its sandbox. Raises RequestError and TransportError.

        When cancelled, a command that did start is killed.
        """

    def files(self, sandbox: Sandbox | None) -> FileAccess:
        """Return the files, as far as the sandbox lets them be used; all of them for None."""

    async def aclose(self) -> None:
        """End what this executor has opened itself."""

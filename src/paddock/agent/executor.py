"""Where an agent's commands run and its files are: the agent knows nothing below this interface.

An `Executor` is a remote server, a private server or a fake; nothing above can tell which. It starts exactly
what it is given and confines it as requested, or refuses. It alone says whether a sandbox was in the way
(`Ending.sandbox_denied`, `Ending.denials`): no caller reads that out of a command's output.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
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
    """A start with nothing left to look up: the executor spawns exactly this, without a sandbox."""

    argv: tuple[str, ...]
    """The program by its own path, without links, and its arguments."""
    arg0: str
    """The name that the program sees as its own."""
    cwd: str
    """The directory, without links."""
    env: Mapping[str, str]
    """Every variable."""


class ProgramRules(Struct, frozen=True):
    """The rules for each program that a command executes in its sandbox."""

    params: InterceptParams
    """The rules, for the executor."""
    decide: Callable[[ExecApprovalParams], Awaitable[ExecApprovalResult]]
    """Called for a program that needs approval by the rules. Cancelled when nobody needs the answer."""


class Command(Struct, frozen=True):
    """A command to start: a program and its arguments. The executor adds no shell."""

    argv: tuple[str, ...]
    cwd: str
    """Absolute, on the executor's host."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables on top of those that the executor gives every command."""
    sandbox: Sandbox | None = None
    """What confines it; None runs it without a sandbox."""
    prepared: PreparedExecSpec | None = None
    """The start that `Executor.prepare` made of this command, for the executor to spawn unchanged."""
    programs: ProgramRules | None = None
    """Rules about the programs that it executes. Only in a sandbox, and only if the executor intercepts."""
    is_terminal: bool = False
    cwd_without_links: bool = False
    """Whether it must not start if there is a link on the way to `cwd`: somebody has approved it there."""
    has_stdin: bool = False
    """Whether the agent can write to it. It always can write to a terminal."""


class RunningCommand(Protocol):
    """A started command. Whoever holds it reads its output to the end, or kills it."""

    def output(self) -> AsyncIterator[Output | Gap]:
        """Iterate over its output, in order, to the end. A Gap stands for lost output.

        Iteration raises ProcessLost if the rest will never be known.
        """

    async def wait(self) -> Ending:
        """Wait for its end and return how it ended; output may still come. Raises ProcessLost."""

    async def write(self, data: bytes) -> None:
        """Write to its stdin or terminal. Raises StdinClosed, and ProcessLost."""

    async def close_stdin(self) -> None:
        """Let it read the end of its input."""

    async def interrupt(self) -> None:
        """Send SIGINT to its process group. Does nothing if it has ended."""

    def kill(self) -> None:
        """Kill its process group, without waiting for the end."""


class FileAccess(Protocol):
    """Files on the executor's host, under one profile. The methods do what those of `paddock.Files` do."""

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""

    async def read_head(self, path: str, limit_bytes: int) -> bytes:
        """Return the first bytes of a file, however long it is."""

    async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
        """Replace the content of a file, or create it."""

    async def edit(self, path: str, old: str, new: str, count: int) -> str:
        """Replace a text that occurs exactly `count` times, and return the diff."""

    async def metadata(self, path: str) -> MetadataResult:
        """Describe a path. Raises NotFound."""

    async def canonicalize(self, path: str) -> str:
        """Return the absolute path without links and dots. Raises NotFound."""

    async def way(self, path: str) -> list[str]:
        """Return each link that a path leads through, each directory that it leaves by `..`, and its end."""

    async def has_other_names(self, path: str) -> bool:
        """Return whether a file is there that commands might change by another name (a hard link)."""

    async def may_lead_into(self, path: str, written_places: Iterable[str]) -> bool:
        """Return whether a path may lead through one of these places, or into one, under whatever name."""

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
        """Set the permissions of a file. Does nothing if the executor knows no permissions."""

    async def remove(self, path: str, *, recursive: bool = True) -> None:
        """Remove a file or a directory."""


class Executor(Protocol):
    """Starts commands and works with files."""

    @property
    def identity(self) -> str:
        """Return a name for the host and user. An approval for one does not count for another."""

    @property
    def shell(self) -> str:
        """Return the path of the user's shell there."""

    @property
    def cwd(self) -> str:
        """Return the directory in which commands run by default."""

    @property
    def temporary_directory(self) -> str | None:
        """Return the directory that TMPDIR names there, if it is set."""

    @property
    def intercepts(self) -> bool:
        """Return whether the executor accepts `Command.programs`."""

    async def search_path(self, sandbox: Sandbox | None) -> str | None:
        """Return the PATH of commands that run without a sandbox; None if they have none.

        Whatever this has to read, it reads in `sandbox`. Raises RequestError and RunTimeout.
        """

    async def prepare(self, command: Command, sandbox: Sandbox | None) -> PreparedExecSpec | None:
        """Look up everything for a start without a sandbox; None if the executor takes no prepared starts.

        Whatever this has to read, it reads in `sandbox`.
        """

    async def start(self, command: Command) -> RunningCommand:
        """Start a command, and return once it runs in its sandbox. Raises RequestError and TransportError.

        If the call is cancelled, the executor kills a command that did start.
        """

    def files(self, sandbox: Sandbox | None, *, without_links: bool = False) -> FileAccess:
        """Return the files, confined by the sandbox; unconfined for None.

        With `without_links` no part of a path may be a link, also if one is put there meanwhile.
        """

    async def aclose(self) -> None:
        """Close everything that this executor has opened itself."""

"""`process/*`: starting, feeding, watching and ending processes.

A `session_id` names the session of the process; the default is the connection's own. Only an
operator may name another session, on the control socket.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType, field

from paddock.model.cause import Cause
from paddock.model.host import Enforcement
from paddock.model.interceptor import Interceptor
from paddock.model.sandbox_start import SandboxStart
from paddock.model.signal_name import parse_signal
from paddock.model.stream import Stream
from paddock.model.terminal import MAX_CELLS
from paddock.protocol.bound import MAX_VARIABLE_PATTERN_CHARS, MAX_VARIABLE_PATTERNS, Name
from paddock.protocol.denial import Denial
from paddock.protocol.intercept import ExecSummary, InterceptParams
from paddock.protocol.network import ManagedNetwork, NetworkProxy
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import MAX_UNSIGNED_64, Params, Result, Unsigned, Unsigned64
from paddock.protocol.usage import Usage

Cells = Annotated[int, Meta(ge=1, le=MAX_CELLS)]
SNAPSHOT_SCOPE_BYTES = 256

SessionId = Name | None | UnsetType
"""The session of the process. Only operators send it, so that other servers never see it."""


VariablePatterns = Annotated[list[Name], Meta(max_length=MAX_VARIABLE_PATTERNS)]


class EnvironmentPolicy(Params, frozen=True, kw_only=True):
    """How the server derives the child's environment from its own."""

    inherit: Literal["all", "core", "none"]
    """Which variables of the server the child starts with: all, those a shell needs (core), or none."""
    ignore_default_excludes: bool
    """Whether the child also inherits variables with KEY, SECRET or TOKEN in their name."""
    exclude: VariablePatterns
    """Patterns, with `*` and `?`, of names to leave out."""
    set: dict[str, str]
    """Variables to set after that."""
    include_only: VariablePatterns
    """Patterns of the only names to keep, if there are any."""

    def __post_init__(self) -> None:
        chars = sum(map(len, self.exclude)) + sum(map(len, self.include_only))
        if chars > MAX_VARIABLE_PATTERN_CHARS:
            raise ValueError(
                f"exclude and includeOnly have {chars} characters; they may have {MAX_VARIABLE_PATTERN_CHARS}"
            )


class SnapshotShell(Params, frozen=True, kw_only=True):
    """The shell whose state to restore."""

    name: str
    path: str


class ShellSnapshot(Params, frozen=True, kw_only=True):
    """A saved shell state to start from."""

    scope_id: str
    """The snapshot's name, 1 to 256 bytes."""
    shell: SnapshotShell
    """The shell that the snapshot comes from."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.scope_id.encode("utf-8", "surrogatepass")) <= SNAPSHOT_SCOPE_BYTES:
            raise ValueError(f"scopeId must be between 1 and {SNAPSHOT_SCOPE_BYTES} bytes long")


class StartMetadata(Params, frozen=True, kw_only=True):
    """Who asked for the process."""

    thread_id: UUID | None = None
    """The conversation; the process finds it as CODEX_THREAD_ID."""
    tool_call_id: str | None = None
    """The tool call; the process finds it as CODEX_TOOL_CALL_ID."""


class PtyIo(Params, frozen=True, kw_only=True):
    """A terminal of this size."""

    rows: Cells
    cols: Cells


class PipeIo(Params, frozen=True, kw_only=True):
    """Pipes. Stdin is a pipe too, or at its end from the start."""

    stdin: Literal["open", "closed"] = "closed"
    """Whether the process can be written to."""


class Io(Params, frozen=True, kw_only=True):
    """Another way to say `tty` and `pipeStdin`. Give exactly one of the two."""

    pty: PtyIo | None = None
    """Run on a terminal."""
    pipe: PipeIo | None = None
    """Run on pipes."""

    def __post_init__(self) -> None:
        if (self.pty is None) == (self.pipe is None):
            raise ValueError('io takes exactly one of "pty" and "pipe"')


class PreparedSpawn(Params, frozen=True, kw_only=True):
    """A resolved spawn request: the server spawns it exactly as it is, and applies no policy."""

    argv: list[str]
    cwd: HostPath
    env: dict[str, str]
    arg0: str | None = None
    """What the program sees as its own name, if not `argv[0]`."""

    def __post_init__(self) -> None:
        _require_program(self.argv, "prepared.argv")


class StartParams(Params, frozen=True, kw_only=True):
    """Start a process.

    `argv`, `cwd` and `env` are required unless `prepared` stands in their place,
    `tty` unless `io` says it.
    """

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset(
        {"io", "prepared", "idempotency_key", "keep_alive", "intercept", "cwd_without_links"}
    )

    process_id: Name
    """The name of the process in this session, chosen by the client. The client may use it again once the
    server has forgotten the process."""
    metadata: StartMetadata | None = None
    """Who asked for it."""
    argv: list[str] | UnsetType = UNSET
    """The program and its arguments. The server looks up a program without a slash in the PATH of `env`."""
    cwd: HostPath | UnsetType = UNSET
    env_policy: EnvironmentPolicy | None = None
    """How to derive the environment from the server's; without it, `env` is the whole environment."""
    shell_snapshot: ShellSnapshot | None = None
    """This version can't enforce it, and refuses it."""
    env: dict[str, str] | UnsetType = UNSET
    """Variables of the process; they win over what `env_policy` gives."""
    tty: bool | UnsetType = UNSET
    """Whether it runs on a terminal (80x24 unless `io` says otherwise) or on pipes."""
    pipe_stdin: bool = False
    """Whether the client can write to a process on pipes; if not, its stdin is at its end from the start."""
    arg0: str | None = None
    """What the program sees as its own name, if not `argv[0]`."""
    sandbox: SandboxContext | None = None
    """The requested confinement. The server refuses what it can't enforce on this host."""
    enforce_managed_network: bool = False
    """Whether the only way out is through the proxies on the host's loopback that variables of the process,
    such as HTTP_PROXY, name. Only in a sandbox."""
    managed_network: ManagedNetwork | None = None
    """The same, with the ports that those proxies may have."""
    network_proxy: NetworkProxy | None = None
    """A proxy of the server's that is the only way out, and the hosts that it leads to. Only in a sandbox."""
    io: Io | None = None
    """Another way to say `tty` and `pipe_stdin`, with the size of the window."""
    prepared: PreparedSpawn | None = None
    """A spawn request that is already resolved. Needs the setting `allow_prepared_exec`."""
    idempotency_key: Name | None = None
    """A start with a key that the session has used before starts nothing; it gets the answer of the first."""
    keep_alive: bool = False
    """Whether the process outlives a session that nobody comes back to."""
    intercept: InterceptParams | None = None
    """Rules that decide on each program that it executes; the client answers what they leave open. Only for a
    process in a sandbox."""
    cwd_without_links: bool = False
    """Whether nothing starts if there is a symbolic link on the way to `cwd`, also one that somebody has just
    put there. Only for a process without a sandbox, which looks at its directory itself."""

    def __post_init__(self) -> None:
        if self.prepared is None:
            for name in ("argv", "cwd", "env"):
                if getattr(self, name) is UNSET:
                    raise ValueError(f"missing required field `{name}`")
        elif not (self.argv is UNSET and self.cwd is UNSET and self.env is UNSET and self.arg0 is None):
            raise ValueError("prepared replaces argv, arg0, cwd and env; give one or the other")
        if self.io is None:
            if self.tty is UNSET:
                raise ValueError("missing required field `tty`; give tty or io")
        elif self.tty is not UNSET and self.tty != (self.io.pty is not None):
            raise ValueError("tty and io contradict each other; give one of them")
        if self.argv is not UNSET:
            _require_program(self.argv, "argv")

    @property
    def is_terminal(self) -> bool:
        """Return whether the process gets a terminal, by either way of saying it."""
        return self.io.pty is not None if self.io is not None else self.tty is True

    @property
    def has_open_stdin(self) -> bool:
        """Return whether the process can be written to."""
        if self.is_terminal:
            return True
        if self.io is not None and self.io.pipe is not None:
            return self.io.pipe.stdin == "open"
        return self.pipe_stdin


def _require_program(argv: list[str], name: str) -> None:
    if not argv:
        raise ValueError(f"{name} must not be empty; its first element is the program")


class StartResult(Result, frozen=True, kw_only=True):
    """The process runs. Its first event comes after this answer."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"sandbox_enforcement", "interceptor", "sandbox_start"})

    process_id: str
    sandbox_type: Literal["none", "linuxSeccomp"]
    """What confines the process; `none` also for a profile that asks for nothing."""
    sandbox_enforcement: Enforcement | UnsetType = UNSET
    """How well it is confined: `full`, or `partial` where a second layer of defence is missing."""
    interceptor: Interceptor | UnsetType = UNSET
    """How the server decides on what it executes, if it was started with `intercept`: `notify` sees every
    execution, `wrapper` those of Bash."""
    sandbox_start: SandboxStart | UnsetType = UNSET
    """How it got its sandbox: `warm` if the server had a spare one, `cold` if it made one for this start. One
    with a terminal, a trace, interception or a managed network is always `cold`."""


class ReadParams(Params, frozen=True, kw_only=True):
    """Read retained output, waiting up to `wait_ms` for something new."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"session_id"})

    process_id: Name
    after_seq: Unsigned64 | None = None
    """Only chunks numbered above this; 0 by default."""
    max_bytes: Unsigned64 | None = None
    """Stop before the chunk that would exceed this size; the answer always has the first chunk."""
    wait_ms: Unsigned64 | None = None
    """How long to wait if there is nothing new; by default not at all, at most a day."""
    session_id: SessionId = UNSET

    def __post_init__(self) -> None:
        for name, value in (
            ("afterSeq", self.after_seq),
            ("maxBytes", self.max_bytes),
            ("waitMs", self.wait_ms),
        ):
            if value is not None and value > MAX_UNSIGNED_64:
                raise ValueError(f"{name} is {value}; it must be between 0 and {MAX_UNSIGNED_64}")


class OutputChunk(Result, frozen=True, kw_only=True):
    """One numbered piece of output."""

    seq: int
    """Its number; output, exit and close of a process share one count."""
    stream: Stream
    chunk: bytes


class OutputGap(Result, frozen=True, kw_only=True):
    """Output that the server dropped to stay within the bound: every chunk with a number in this range."""

    from_seq: int
    """The first number that is missing."""
    to_seq: int
    """The last number that is missing."""
    bytes_: int = field(name="bytes")
    """Upper bound of the dropped bytes."""


class ReadResult(Result, frozen=True, kw_only=True):
    """Retained chunks, and where the process stands."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"cause", "denials", "execs", "gaps", "usage"})

    chunks: list[OutputChunk]
    """In the order of their numbers."""
    next_seq: int
    """Read on with `afterSeq` one below this."""
    exited: bool
    exit_code: int | None
    """The exit status, 128 + n for death by signal n; null before the exit."""
    closed: bool
    failure: str | None
    """Why the outcome of the process will never be known; null otherwise."""
    sandbox_denied: bool = False
    """Whether its sandbox, as far as can be told, made it fail."""
    denials: list[Denial] | UnsetType = UNSET
    """What its sandbox kept it from; absent if that is nothing, and before the exit."""
    cause: Cause | UnsetType = UNSET
    """What ended it, as in `process/exited`; absent before."""
    usage: Usage | UnsetType = UNSET
    """What it used; absent before the exit."""
    execs: ExecSummary | UnsetType = UNSET
    """What became of the programs that it executed; absent if they were not intercepted, and before the
    exit."""
    gaps: list[OutputGap] | UnsetType = UNSET
    """What is missing between the chunks."""


class WriteParams(Params, frozen=True, kw_only=True):
    """Write to stdin. A `write_id` makes it idempotent and turns refusals into statuses."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"session_id"})
    HAS_CHUNK: ClassVar[bool] = True

    process_id: Name
    chunk: bytes
    write_id: Name | None = None
    """The server does not repeat a write with an id that it has accepted before."""
    session_id: SessionId = UNSET

    def __post_init__(self) -> None:
        if self.write_id == "":
            raise ValueError("writeId must not be empty; leave it out or make it unique for each write")


class WriteResult(Result, frozen=True, kw_only=True):
    """The outcome of a write."""

    status: Literal["accepted", "unknownProcess", "stdinClosed", "starting"]
    """Without a `writeId`, always `accepted`. This server never answers `starting`: it waits."""


class ProcessParams(Params, frozen=True, kw_only=True):
    """A process and nothing else."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"session_id"})

    process_id: Name
    session_id: SessionId = UNSET


class ResizeParams(Params, frozen=True, kw_only=True):
    """Set the window size of a terminal."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"session_id"})

    process_id: Name
    rows: Cells
    cols: Cells
    session_id: SessionId = UNSET


class SignalParams(Params, frozen=True, kw_only=True):
    """Send a signal to the process group."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"session_id"})

    process_id: Name
    """The process. An unknown or ended one is no error."""
    signal: Name
    """`SIGTERM`, `TERM` and so on, or `interrupt` for SIGINT."""
    session_id: SessionId = UNSET

    def __post_init__(self) -> None:
        parse_signal(self.signal)


class Grace(Params, frozen=True, kw_only=True):
    """How long a process may take to end after SIGTERM."""

    timeout_ms: Unsigned
    """Milliseconds; a day at most."""


class GracefulMode(Params, frozen=True, kw_only=True):
    """SIGTERM, then SIGKILL when the time is over."""

    graceful: Grace
    """The grace."""


class TerminateParams(Params, frozen=True, kw_only=True):
    """End the process group, by force unless the request gives a grace."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"mode", "session_id"})

    process_id: Name
    """The process. An unknown one counts as not running."""
    mode: Literal["force"] | GracefulMode | None = None
    """`"force"`, the default, or a grace."""
    session_id: SessionId = UNSET


class TerminateResult(Result, frozen=True, kw_only=True):
    """Whether the process was still running."""

    running: bool


class WaitParams(Params, frozen=True, kw_only=True):
    """Wait for the exit. Without a timeout, for as long as it takes."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"session_id"})

    process_id: Name
    timeout_ms: Unsigned | None = None
    """How long to wait; a day at most."""
    session_id: SessionId = UNSET


class WaitResult(Result, frozen=True, kw_only=True):
    """Where the process stands when the wait is over; a timeout is not an error."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"cause", "denials", "execs", "usage"})

    exited: bool
    exit_code: int | None
    closed: bool
    sandbox_denied: bool = False
    """Whether its sandbox, as far as can be told, made it fail."""
    denials: list[Denial] | UnsetType = UNSET
    """What its sandbox kept it from; absent if that is nothing, and before the exit."""
    cause: Cause | UnsetType = UNSET
    """What ended it, as in `process/exited`; absent before."""
    usage: Usage | UnsetType = UNSET
    """What it used; absent before the exit."""
    execs: ExecSummary | UnsetType = UNSET
    """What became of the programs that it executed; absent if they were not intercepted, and before the
    exit."""


class OmittedBytes(Result, frozen=True, kw_only=True):
    """How much of each stream was dropped."""

    stdout: int
    stderr: int
    terminal: int


class SnapshotResult(Result, frozen=True, kw_only=True):
    """The retained output of the process: its head and its newest tail.

    Both are those of all output together, so one stream may have no head, or no tail, left.
    """

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"cause", "denials", "execs", "usage"})

    stdout: bytes
    """The retained part of stdout."""
    stderr: bytes
    """The retained part of stderr."""
    terminal: bytes
    """The retained part of the terminal's output."""
    truncated: bool
    """Whether anything is missing."""
    omitted_bytes: OmittedBytes
    """How much of each stream was dropped between head and tail."""
    exit_code: int | None
    running: bool
    sandbox_denied: bool = False
    """Whether its sandbox, as far as can be told, made it fail."""
    denials: list[Denial] | UnsetType = UNSET
    """What its sandbox kept it from; absent if that is nothing, and before the exit."""
    cause: Cause | UnsetType = UNSET
    """What ended it, as in `process/exited`; absent before."""
    usage: Usage | UnsetType = UNSET
    """What it used; absent before the exit."""
    execs: ExecSummary | UnsetType = UNSET
    """What became of the programs that it executed; absent if they were not intercepted, and before the
    exit."""


class ProcessSummary(Result, frozen=True, kw_only=True):
    """One process of the session."""

    process_id: str
    argv: list[str]
    """The program and its arguments; long ones are cut, and many end with how many more there are."""
    cwd: str
    tty: bool
    running: bool
    exit_code: int | None
    started_at_ms: int


class ListResult(Result, frozen=True, kw_only=True):
    """The processes of the session, oldest first."""

    processes: list[ProcessSummary]
    """All started processes that the server has not forgotten. If they are more than 64, each is as it was
    while the server made the answer, which may be before an event that came earlier."""

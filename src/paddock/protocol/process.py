"""`process/*`: starting, feeding, watching and ending processes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType, field

from paddock.model.signal_name import parse_signal
from paddock.model.stream import Stream
from paddock.model.terminal import MAX_CELLS
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result, Unsigned

Cells = Annotated[int, Meta(ge=1, le=MAX_CELLS)]
Port = Annotated[int, Meta(ge=0, le=0xFFFF)]
SNAPSHOT_SCOPE_BYTES = 256


class EnvironmentPolicy(Params, frozen=True, kw_only=True):
    """How the child's environment is derived from the server's."""

    inherit: Literal["all", "core", "none"]
    ignore_default_excludes: bool
    exclude: list[str]
    set: dict[str, str]
    include_only: list[str]


class ManagedNetwork(Params, frozen=True, kw_only=True):
    """Which loopback ports a managed network opens."""

    loopback_ports: list[Port]
    allow_local_binding: bool


class NetworkProxy(Params, frozen=True, kw_only=True):
    """A proxy that the executor starts for the process."""

    proxy: dict[str, object]


class SnapshotShell(Params, frozen=True, kw_only=True):
    """The shell whose state is restored."""

    name: str
    path: str


class ShellSnapshot(Params, frozen=True, kw_only=True):
    """A saved shell state to start from."""

    scope_id: str
    shell: SnapshotShell

    def __post_init__(self) -> None:
        if not 1 <= len(self.scope_id.encode("utf-8", "surrogatepass")) <= SNAPSHOT_SCOPE_BYTES:
            raise ValueError(f"scopeId must be between 1 and {SNAPSHOT_SCOPE_BYTES} bytes long")


class StartMetadata(Params, frozen=True, kw_only=True):
    """Who asked for the process."""

    thread_id: UUID | None = None
    tool_call_id: str | None = None


class PtyIo(Params, frozen=True, kw_only=True):
    """A terminal of this size."""

    rows: Cells
    cols: Cells


class PipeIo(Params, frozen=True, kw_only=True):
    """Pipes; stdin is a pipe too, or is at its end from the start."""

    stdin: Literal["open", "closed"] = "closed"


class Io(Params, frozen=True, kw_only=True):
    """Another way to say `tty` and `pipeStdin`; exactly one of the two is given."""

    pty: PtyIo | None = None
    pipe: PipeIo | None = None

    def __post_init__(self) -> None:
        if (self.pty is None) == (self.pipe is None):
            raise ValueError('io takes exactly one of "pty" and "pipe"')


class PreparedSpawn(Params, frozen=True, kw_only=True):
    """A resolved spawn request: spawned exactly as it stands, no policy applied."""

    argv: list[str]
    cwd: HostPath
    env: dict[str, str]
    arg0: str | None = None

    def __post_init__(self) -> None:
        _require_program(self.argv, "prepared.argv")


class StartParams(Params, frozen=True, kw_only=True):
    """Start a process.

    `argv`, `cwd` and `env` are required unless `prepared` stands in their place,
    `tty` unless `io` says it.
    """

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"io", "prepared", "idempotency_key", "keep_alive"})

    process_id: str
    metadata: StartMetadata | None = None
    argv: list[str] | UnsetType = UNSET
    cwd: HostPath | UnsetType = UNSET
    env_policy: EnvironmentPolicy | None = None
    shell_snapshot: ShellSnapshot | None = None
    env: dict[str, str] | UnsetType = UNSET
    tty: bool | UnsetType = UNSET
    pipe_stdin: bool = False
    arg0: str | None = None
    sandbox: SandboxContext | None = None
    enforce_managed_network: bool = False
    managed_network: ManagedNetwork | None = None
    network_proxy: NetworkProxy | None = None
    io: Io | None = None
    prepared: PreparedSpawn | None = None
    idempotency_key: str | None = None
    keep_alive: bool = False

    def __post_init__(self) -> None:
        if self.prepared is None:
            for name in ("argv", "cwd", "env"):
                if getattr(self, name) is UNSET:
                    raise ValueError(f"missing required field `{name}`")
        elif not (self.argv is UNSET and self.cwd is UNSET and self.env is UNSET and self.arg0 is None):
            raise ValueError("prepared stands in place of argv, arg0, cwd and env; give one or the other")
        if self.io is None:
            if self.tty is UNSET:
                raise ValueError("missing required field `tty`; give tty or io")
        elif self.tty is not UNSET and self.tty != (self.io.pty is not None):
            raise ValueError("tty and io contradict each other; give one of them")
        if self.argv is not UNSET:
            _require_program(self.argv, "argv")

    @property
    def is_terminal(self) -> bool:
        """Whether the process gets a terminal, by either way of saying it."""
        return self.io.pty is not None if self.io is not None else self.tty is True

    @property
    def has_open_stdin(self) -> bool:
        """Whether the process can be written to."""
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

    process_id: str
    sandbox_type: Literal["none", "linuxSeccomp"]


class ReadParams(Params, frozen=True, kw_only=True):
    """Read retained output, waiting up to `wait_ms` for something new."""

    process_id: str
    after_seq: Unsigned | None = None
    max_bytes: Unsigned | None = None
    wait_ms: Unsigned | None = None


class OutputChunk(Result, frozen=True, kw_only=True):
    """One numbered piece of output."""

    seq: int
    stream: Stream
    chunk: bytes


class OutputGap(Result, frozen=True, kw_only=True):
    """Output that was dropped to stay within the bound: every chunk numbered in this range."""

    from_seq: int
    to_seq: int
    bytes_: int = field(name="bytes")


class ReadResult(Result, frozen=True, kw_only=True):
    """Retained chunks, and where the process stands. `gaps` is an extension."""

    chunks: list[OutputChunk]
    next_seq: int
    exited: bool
    exit_code: int | None
    closed: bool
    failure: str | None
    sandbox_denied: bool
    gaps: list[OutputGap] | UnsetType = UNSET


class WriteParams(Params, frozen=True, kw_only=True):
    """Write to stdin. A `write_id` makes it idempotent and turns refusals into statuses."""

    process_id: str
    chunk: bytes
    write_id: str | None = None

    def __post_init__(self) -> None:
        if self.write_id == "":
            raise ValueError("writeId must not be empty; leave it out or make it unique for each write")


class WriteResult(Result, frozen=True, kw_only=True):
    """What became of a write."""

    status: Literal["accepted", "unknownProcess", "stdinClosed", "starting"]


class ProcessParams(Params, frozen=True, kw_only=True):
    """A process and nothing else."""

    process_id: str


class ResizeParams(Params, frozen=True, kw_only=True):
    """Set the window size of a terminal."""

    process_id: str
    rows: Cells
    cols: Cells


class SignalParams(Params, frozen=True, kw_only=True):
    """Send a signal to the process group."""

    process_id: str
    signal: str

    def __post_init__(self) -> None:
        parse_signal(self.signal)


class Grace(Params, frozen=True, kw_only=True):
    """How long a process may take to end after SIGTERM."""

    timeout_ms: Unsigned


class GracefulMode(Params, frozen=True, kw_only=True):
    """SIGTERM, then SIGKILL when the time is over."""

    graceful: Grace


class TerminateParams(Params, frozen=True, kw_only=True):
    """End the process group, by force unless a grace is given."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"mode"})

    process_id: str
    mode: Literal["force"] | GracefulMode | None = None


class TerminateResult(Result, frozen=True, kw_only=True):
    """Whether the process was still running."""

    running: bool


class WaitParams(Params, frozen=True, kw_only=True):
    """Wait for the exit. Without a timeout, for as long as it takes."""

    process_id: str
    timeout_ms: Unsigned | None = None


class WaitResult(Result, frozen=True, kw_only=True):
    """Where the process stands when the wait is over; a timeout is not an error."""

    exited: bool
    exit_code: int | None
    closed: bool
    sandbox_denied: bool


class OmittedBytes(Result, frozen=True, kw_only=True):
    """How much of each stream was dropped."""

    stdout: int
    stderr: int
    terminal: int


class SnapshotResult(Result, frozen=True, kw_only=True):
    """Head and tail of everything the process wrote."""

    stdout: bytes
    stderr: bytes
    terminal: bytes
    truncated: bool
    omitted_bytes: OmittedBytes
    exit_code: int | None
    running: bool


class ProcessSummary(Result, frozen=True, kw_only=True):
    """One process of the session."""

    process_id: str
    argv: list[str]
    cwd: str
    tty: bool
    running: bool
    exit_code: int | None
    started_at_ms: int


class ListResult(Result, frozen=True, kw_only=True):
    """The processes of the session, oldest first."""

    processes: list[ProcessSummary]


class OutputEvent(Result, frozen=True, kw_only=True):
    """`process/output`."""

    process_id: str
    seq: int
    stream: Stream
    chunk: bytes


class ExitedEvent(Result, frozen=True, kw_only=True):
    """`process/exited`: the process has ended; its streams may still hold output."""

    process_id: str
    seq: int
    exit_code: int
    sandbox_denied: bool


class ClosedEvent(Result, frozen=True, kw_only=True):
    """`process/closed`: it has ended and its streams are at their end. The last event."""

    process_id: str
    seq: int


class StartedEvent(Result, frozen=True, kw_only=True):
    """`process/started`, by opt-in."""

    process_id: str
    started_at_ms: int


class FailedEvent(Result, frozen=True, kw_only=True):
    """`process/failed`, by opt-in: it could not be started, or what became of it is not known."""

    process_id: str
    message: str

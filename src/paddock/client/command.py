"""Turns a caller's command into the parameters of `process/start`. Pure.

Checks what can be checked without the server: types that JSON would not refuse,
and capabilities that the server said it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from paddock.client.capability import require
from paddock.client.wire_path import RemotePathLike, wire_path
from paddock.model.secret_name import SECRET_NAMES
from paddock.model.terminal import TerminalSize
from paddock.protocol.path import HostPath, parse_path
from paddock.protocol.process import EnvironmentPolicy, Io, PreparedSpawn, PtyIo, StartParams
from paddock.protocol.session import EnvironmentInfo

if TYPE_CHECKING:
    from paddock.client.confinement import SandboxLike
    from paddock.model.profile import Limits
    from paddock.protocol.intercept import InterceptParams
    from paddock.protocol.sandbox import SandboxContext

INHERIT = EnvironmentPolicy(
    inherit="all", ignore_default_excludes=True, exclude=[*SECRET_NAMES], set={}, include_only=[]
)
"""The server's environment without variables that look like secrets."""


class RunOptions(TypedDict, total=False):
    """The options of `Box.run`, apart from the command and its input."""

    timeout_s: float | None
    output_limit_bytes: int | None
    check: bool
    cwd: RemotePathLike | None
    env: Mapping[str, str] | None
    extra_env: Mapping[str, str] | None
    tty: bool | TerminalSize
    arg0: str | None
    sandbox: SandboxLike | None
    limits: Limits | None
    intercept: InterceptParams | None


def checked_input(
    data: bytes | bytearray | memoryview | str | None, *, is_text: bool
) -> bytes | bytearray | memoryview | None:
    """Return the input of a command as bytes.

    Raises TypeError for bytes if `is_text`, and for text if not.
    """
    if data is None:
        return None
    if isinstance(data, str) != is_text:
        remedy = "give text=True as well, or input.encode()" if isinstance(data, str) else "give a str"
        raise TypeError(f"input is {type(data).__name__}, but text is {is_text}: {remedy}")
    return data.encode() if isinstance(data, str) else data


def checked_argv(argv: Sequence[str]) -> list[str]:
    """Return a copy of a command. Raises TypeError for a bare string, ValueError for an empty command."""
    if isinstance(argv, str | bytes):
        raise TypeError(f"argv is a list of arguments, not a string; did you mean ['sh', '-c', {argv!r}]?")
    arguments = list(argv)
    for argument in arguments:
        if not isinstance(argument, str):
            raise TypeError(f"argv holds {argument!r}, which is not a str")
    if not arguments:
        raise ValueError("argv is empty; its first element is the program")
    return arguments


def start_params(
    environment: EnvironmentInfo,
    process_id: str,
    argv: Sequence[str],
    *,
    cwd: RemotePathLike | None,
    env: Mapping[str, str] | None,
    extra_env: Mapping[str, str] | None,
    stdin: bool,
    tty: bool | TerminalSize,
    arg0: str | None,
    keep_alive: bool,
    idempotency_key: str | None,
    sandbox: SandboxLike | None = None,
    limits: Limits | None = None,
    intercept: InterceptParams | None = None,
    cwd_without_links: bool = False,
) -> StartParams:
    """Build the parameters of a start. Raises TypeError, ValueError or CapabilityMissing."""
    _check_terminal(environment, tty)
    if keep_alive:
        require(environment, "keepAlive", "keep a process alive without its client")
    if idempotency_key is not None:
        require(environment, "startIdempotency", "start a process once per idempotency key")
    if intercept is not None:
        require(environment, "execInterception", "decide on what a process executes")
    if cwd_without_links:
        require(environment, "cwdWithoutLinks", "refuse links on the way to the working directory")
    directory = _cwd_uri(environment, cwd)
    return StartParams(
        process_id=process_id,
        argv=checked_argv(argv),
        cwd=directory,
        env=dict(env or {}) | dict(extra_env or {}),
        env_policy=INHERIT if env is None else None,
        tty=bool(tty),
        io=_io(tty),
        pipe_stdin=stdin and not tty,
        arg0=arg0,
        keep_alive=keep_alive,
        idempotency_key=idempotency_key,
        sandbox=_sandbox(environment, sandbox, limits, directory),
        intercept=intercept,
        cwd_without_links=cwd_without_links,
    )


def prepared_params(
    environment: EnvironmentInfo,
    process_id: str,
    argv: Sequence[str],
    *,
    cwd: RemotePathLike,
    env: Mapping[str, str],
    arg0: str | None,
    stdin: bool,
    tty: bool | TerminalSize,
    idempotency_key: str | None,
    cwd_without_links: bool = False,
) -> StartParams:
    """Build the parameters of a start that is spawned as it stands. Raises as `start_params` does."""
    require(environment, "preparedExec", "start what a caller has prepared")
    if cwd_without_links:
        require(environment, "cwdWithoutLinks", "refuse links on the way to the working directory")
    _check_terminal(environment, tty)
    spawn = PreparedSpawn(argv=checked_argv(argv), cwd=wire_path(environment, cwd), env=dict(env), arg0=arg0)
    return StartParams(
        process_id=process_id,
        prepared=spawn,
        tty=bool(tty),
        io=_io(tty),
        pipe_stdin=stdin and not tty,
        idempotency_key=idempotency_key,
        cwd_without_links=cwd_without_links,
    )


def _sandbox(
    environment: EnvironmentInfo, sandbox: SandboxLike | None, limits: Limits | None, cwd: HostPath
) -> SandboxContext | None:
    if sandbox is None and limits is None:
        return None
    # Not every program that starts commands confines them.
    from paddock.client.confinement import sandbox_context, with_limits

    wanted = with_limits(sandbox, limits)
    return None if wanted is None else sandbox_context(environment, wanted, cwd)


def _check_terminal(environment: EnvironmentInfo, tty: bool | TerminalSize) -> None:
    if not isinstance(tty, bool | TerminalSize):
        raise TypeError(f"tty is {tty!r}; give True, False or a size, such as TerminalSize(rows=24, cols=80)")
    if isinstance(tty, TerminalSize):
        require(environment, "processIo", "start a terminal of a given size")


def _io(tty: bool | TerminalSize) -> Io | None:
    return Io(pty=PtyIo(rows=tty.rows, cols=tty.cols)) if isinstance(tty, TerminalSize) else None


def _cwd_uri(environment: EnvironmentInfo, cwd: RemotePathLike | None) -> HostPath:
    return parse_path(environment.cwd) if cwd is None else wire_path(environment, cwd)

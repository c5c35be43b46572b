"""What a caller wants started -> the parameters of `process/start`. Pure.

Checks what can be checked without the server: types that JSON would not refuse,
and capabilities that the server said it lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddock.client.capability import require
from paddock.client.confinement import SandboxLike, sandbox_context
from paddock.client.place import RemotePathLike, wire_path
from paddock.model.terminal import TerminalSize
from paddock.protocol.path import HostPath, parse_path
from paddock.protocol.process import EnvironmentPolicy, Io, PtyIo, StartParams
from paddock.protocol.session import EnvironmentInfo

INHERIT = EnvironmentPolicy(inherit="all", ignore_default_excludes=False, exclude=[], set={}, include_only=[])
"""The server's environment without what looks like a secret."""


def checked_argv(argv: Sequence[str]) -> list[str]:
    """A copy of a command. Raises TypeError for a bare string, ValueError for an empty command."""
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
) -> StartParams:
    """The parameters. Raises TypeError, ValueError or CapabilityMissing."""
    if not isinstance(tty, bool | TerminalSize):
        raise TypeError(f"tty is {tty!r}; give True, False or a size, such as TerminalSize(rows=24, cols=80)")
    if isinstance(tty, TerminalSize):
        require(environment, "processIo", "start a terminal of a given size")
    if keep_alive:
        require(environment, "keepAlive", "keep a process alive without its client")
    if idempotency_key is not None:
        require(environment, "startIdempotency", "start a process once per idempotency key")
    directory = _cwd_uri(environment, cwd)
    return StartParams(
        process_id=process_id,
        argv=checked_argv(argv),
        cwd=directory,
        env=dict(env or {}) | dict(extra_env or {}),
        env_policy=INHERIT if env is None else None,
        tty=bool(tty),
        io=Io(pty=PtyIo(rows=tty.rows, cols=tty.cols)) if isinstance(tty, TerminalSize) else None,
        pipe_stdin=stdin and not tty,
        arg0=arg0,
        keep_alive=keep_alive,
        idempotency_key=idempotency_key,
        sandbox=None if sandbox is None else sandbox_context(environment, sandbox, directory),
    )


def _cwd_uri(environment: EnvironmentInfo, cwd: RemotePathLike | None) -> HostPath:
    return parse_path(environment.cwd) if cwd is None else wire_path(environment, cwd)

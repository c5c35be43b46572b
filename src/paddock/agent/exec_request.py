"""Applies defaults and bounds to a call of `exec_command` or `write_stdin`. Pure."""

from __future__ import annotations

import posixpath
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from paddock.agent.exec_arguments import ExecArguments, SandboxPermissions, StdinArguments, WaitFor
from paddock.agent.live_process import NEVER, Wake
from paddock.agent.permission import Permissions
from paddock.agent.proposal import Proposal
from paddock.agent.truncation import DEFAULT_TOKENS
from paddock.agent.wake_pattern import compile_wake
from paddock.errors import InvalidToolCall

_WITHOUT_FILES: Final = {
    "bash": ("--norc",),
    "bsd-csh": ("-f",),
    "csh": ("-f",),
    "fish": ("--no-config",),
    "tcsh": ("-f",),
    "zsh": ("-f",),
    # These read no file of their user's with -c.
    **dict.fromkeys(("ash", "busybox", "dash", "ksh", "lksh", "mksh", "oksh", "posh", "sh", "yash"), ()),
}
"""Shells, by their names without a version, and the options with which they read no file of their user's."""

_STATIC: Final = "-static"
"""What distributions add to the name of a shell that needs no libraries."""

WITHOUT_FILES_ENVIRONMENT: Final = {"BASH_ENV": ""}
"""Bash reads the file that this names before it runs a line, `--norc` or not."""

MIN_YIELD_S: Final = 0.25
MAX_YIELD_S: Final = 30.0
EXEC_YIELD_S: Final = 10.0
WRITE_YIELD_S: Final = 0.25
MIN_POLL_S: Final = 5.0
MAX_POLL_S: Final = 300.0


class ExecRequest(Struct, frozen=True):
    """A call of `exec_command`, decoded."""

    call_id: str
    number: int
    """The session id that is reserved for it."""
    cwd: str
    proposal: Proposal
    is_terminal: bool
    stdin: bytes | None
    yield_s: float
    wake: Wake
    parsed: tuple[tuple[str, ...], ...] = ()
    """The commands of the line, for events."""


def shell_words(shell: str, arguments: ExecArguments, *, allow_login: bool) -> tuple[str, ...]:
    """Return what to start in a sandbox. Raises InvalidToolCall for a login shell that is not offered."""
    if arguments.login is True and not allow_login:
        raise InvalidToolCall("exec_command", "there are no login shells here; leave `login` out")
    is_login = allow_login and arguments.login is not False
    return (shell, "-lc" if is_login else "-c", arguments.cmd)


def unsandboxed_words(shell: str, line: str, program: str) -> tuple[str, ...]:
    """Return what to start without a sandbox: a shell that reads no file of its user's first, if it is known.

    A confined command may have written such a file. Zsh reads one even if it is no login shell; so does Bash,
    as many distributions build it, where it believes that sshd has started it. `program` is where the path
    of the shell leads: `rzsh` may be a link to `zsh`, and `zsh` one to `zsh-5.9`.
    """
    families = map(_family, (program, shell))
    options = next((_WITHOUT_FILES[family] for family in families if family in _WITHOUT_FILES), ())
    return (shell, *options, "-c", line)


def may_read_files(program: str) -> bool:
    """Return whether a shell, by its path without links, may read files of its user's before a line.

    It is started as `unsandboxed_words` say.
    """
    return _family(program) not in _WITHOUT_FILES


def _family(path: str) -> str:
    """Return the name of a shell without its version: that of `zsh5-static` and `zsh-5.9` is `zsh`."""
    return posixpath.basename(path).removesuffix(_STATIC).rstrip("-.0123456789")


def exec_yield_s(arguments: ExecArguments) -> float:
    """Return how long to wait for a command that was started."""
    return _clamped(arguments.yield_time_ms, EXEC_YIELD_S, MIN_YIELD_S, MAX_YIELD_S)


def write_yield_s(arguments: StdinArguments, max_poll_s: float) -> float:
    """Return how long to wait after something was typed, or for output alone."""
    if arguments.chars:
        return _clamped(arguments.yield_time_ms, WRITE_YIELD_S, MIN_YIELD_S, MAX_YIELD_S)
    return _clamped(arguments.yield_time_ms, MIN_POLL_S, MIN_POLL_S, max(max_poll_s, MIN_POLL_S))


def token_budget(asked: float | UnsetType, limit_tokens: int) -> int:
    """Return how much output a reply may have: what the model asks for, within what its agent lets it."""
    wanted = DEFAULT_TOKENS if asked is UNSET else max(0, int(asked))
    return min(wanted, limit_tokens)


def wake_of(tool: str, wanted: WaitFor | UnsetType) -> Wake:
    """Return what ends a wait before its time. Raises InvalidToolCall."""
    if wanted is UNSET:
        return NEVER
    pattern = None
    if wanted.pattern is not UNSET:
        try:
            pattern = compile_wake(wanted.pattern)
        except ValueError as error:
            raise InvalidToolCall(tool, f"wait_for.pattern: {error}") from error
    return Wake(pattern, None if wanted.idle_ms is UNSET else max(wanted.idle_ms, 1) / 1000)


def permissions_of(arguments: ExecArguments) -> Permissions:
    """Return what the model asks for on top of its profile. Raises InvalidToolCall."""
    asked = arguments.additional_permissions
    is_with = arguments.sandbox_permissions is SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS
    if (asked is UNSET) == is_with:
        problem = "additional_permissions and with_additional_permissions go together; give both or none"
        raise InvalidToolCall("exec_command", problem)
    if asked is UNSET:
        return Permissions()
    files = asked.file_system
    for path in (*files.read, *files.write):
        if not path.startswith("/") or posixpath.normpath(path) != path or "\0" in path:
            raise InvalidToolCall("exec_command", f"{path!r} is not a plain absolute path")
    wanted = Permissions(tuple(files.read), tuple(files.write), asked.network.enabled)
    if not wanted:
        raise InvalidToolCall("exec_command", "additional_permissions asks for nothing")
    return wanted


def _clamped(asked_ms: float | UnsetType, default_s: float, least_s: float, most_s: float) -> float:
    return min(max(default_s if asked_ms is UNSET else asked_ms / 1000, least_s), most_s)

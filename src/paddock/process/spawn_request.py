"""What is to be started, and its form on the socket to the spawner. No I/O.

A request that no operating system could carry out, because of a NUL byte for one,
is refused here and the flaw named.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from paddock.errors import SpawnError

# The wire. The other side, with comments on each field, is native/wire.h: change both.
_SPAWN: Final = struct.Struct("<QIIIII")  # token, flags, limits, arguments, variables, inherited
_SPAWN_TERMINAL: Final = 1
_SPAWN_SHIELDED: Final = 2
_LIMIT: Final = struct.Struct("<IIQQ")  # resource, padding, soft, hard
_PAYLOAD_LIMIT_BYTES: Final = 8 << 20

FIRST_INHERITED: Final = 3
INHERITED_LIMIT: Final = 128
"""With the standard three it makes FDS_MAX of native/wire.h."""

_UNSIGNED_64: Final = (1 << 64) - 1
"""Makes RLIM_INFINITY, which Python spells -1, the value the kernel means."""


class SpawnStage(StrEnum):
    """The step of a spawn that failed."""

    FORK = "fork"
    SETUP = "setup"
    """Session, terminal, descriptors or limits."""
    CWD = "cwd"
    EXEC = "exec"
    REQUEST = "request"
    """The request can't be expressed, or its descriptors could not be passed."""


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """What to start. `cwd` is absolute.

    `program` with a slash is a path, relative to `cwd`; without one it is looked
    up in the PATH of `env`. `argv` includes the name at index 0, which may differ
    from `program`. `env` is the whole environment. `fds` are stdin, stdout and
    stderr, or with `is_terminal` the slave side of a terminal alone, which becomes
    the controlling one. `rlimits` maps `resource.RLIMIT_*` to (soft, hard).

    `inherited` are descriptors that the program finds as 3, 4, and so on; at most INHERITED_LIMIT.
    A shielded program starts with every signal blocked: it is a launcher that shares its group
    with its command, and must not die of a signal that the command survives.
    """

    program: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    fds: tuple[int, ...]
    is_terminal: bool
    rlimits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    inherited: tuple[int, ...] = ()
    is_shielded: bool = False


def spawn_payload(token: int, request: SpawnRequest) -> bytes:
    """The request as the helper reads it. Raises SpawnError when it can't be expressed."""
    strings = [request.program, request.cwd, *request.argv]
    strings += [f"{name}={value}" for name, value in request.env.items()]
    text = "\0".join(strings) + "\0"
    try:
        # Not os.fsencode: bytes are the same in every locale.
        encoded = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise _flawed(request, errno.EILSEQ) from error
    # One count covers every string: a NUL inside any of them is one too many.
    if encoded.count(b"\0") != len(strings) or any(not name or "=" in name for name in request.env):
        raise _flawed(request, errno.EINVAL)
    flags = _SPAWN_TERMINAL if request.is_terminal else 0
    flags |= _SPAWN_SHIELDED if request.is_shielded else 0
    payload = b"".join(
        (
            _SPAWN.pack(
                token,
                flags,
                len(request.rlimits),
                len(request.argv),
                len(request.env),
                len(request.inherited),
            ),
            *(
                _LIMIT.pack(resource, 0, soft & _UNSIGNED_64, hard & _UNSIGNED_64)
                for resource, (soft, hard) in request.rlimits.items()
            ),
            encoded,
        )
    )
    if len(payload) > _PAYLOAD_LIMIT_BYTES:
        raise SpawnError(SpawnStage.REQUEST, errno.E2BIG, request.program, request.cwd)
    return payload


def _flawed(request: SpawnRequest, number: int) -> SpawnError:
    """The error for a request with a string that no program can be given. Values of variables stay secret."""
    named = {
        "the program": request.program,
        "the working directory": request.cwd,
        **{f"argument {index} ({value!r})": value for index, value in enumerate(request.argv)},
        **{f"the environment variable {name!r}": f"{name}{value}" for name, value in request.env.items()},
    }
    flaw = None
    for name, value in named.items():
        if "\0" in value:
            flaw = f"{name} contains a NUL byte"
        elif any(0xD800 <= ord(character) < 0xDC80 for character in value):
            flaw = f"{name} contains half of a surrogate pair, which has no UTF-8 form"
        if flaw is not None:
            break
    else:
        name = next((name for name in request.env if not name or "=" in name), "")
        flaw = f"{name!r} can't be the name of an environment variable"
    return SpawnError(SpawnStage.REQUEST, number, request.program, request.cwd, flaw)

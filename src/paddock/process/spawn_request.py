"""A request to start a process, and its form on the socket to the spawner. No I/O.

This module refuses a request that no operating system could carry out, for example one with a
NUL byte, and names the flaw.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from paddock.c_string import NUL_FLAW, c_strings
from paddock.errors import SpawnError

# The wire. The other side, with comments on each field, is native/wire.h: change both.
_SPAWN: Final = struct.Struct("<QIIIII")  # token, flags, limits, arguments, variables, inherited
_SPAWN_TERMINAL: Final = 1
_SPAWN_SHIELDED: Final = 2
_SPAWN_WITHOUT_LINKS: Final = 4
_LIMIT: Final = struct.Struct("<IIQQ")  # resource, padding, soft, hard
_PAYLOAD_LIMIT_BYTES: Final = 8 << 20

FIRST_INHERITED: Final = 3

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


class SpawnRequest(Struct, frozen=True):
    """What to start. `cwd` is absolute.

    `program` with a slash is a path, relative to `cwd`; without one it is looked
    up in the PATH of `env`. `argv` includes the name at index 0, which may differ
    from `program`. `env` is the whole environment. `fds` are stdin, stdout and
    stderr, or with `is_terminal` the slave side of a terminal alone, which becomes
    the controlling one. `rlimits` maps `resource.RLIMIT_*` to (soft, hard).

    `inherited` are descriptors that the program finds as 3, 4, and so on; at most INHERITED_LIMIT.
    A shielded program starts with every signal blocked, or ignored where it would wait in a queue:
    it is a launcher that shares its group with its command, and must not die of a signal that the
    command survives.

    With `cwd_without_links` the start fails if there is a symbolic link on the way to `cwd`.
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
    cwd_without_links: bool = False


def spawn_payload(token: int, request: SpawnRequest) -> bytes:
    """Encode the request as the helper reads it. Raises SpawnError when it can't be expressed."""
    strings = encoded_strings(request.program, request.argv, request.cwd, request.env)
    flags = _SPAWN_TERMINAL if request.is_terminal else 0
    flags |= _SPAWN_SHIELDED if request.is_shielded else 0
    flags |= _SPAWN_WITHOUT_LINKS if request.cwd_without_links else 0
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
            strings,
        )
    )
    if len(payload) > _PAYLOAD_LIMIT_BYTES:
        raise SpawnError(SpawnStage.REQUEST, errno.E2BIG, request.program, request.cwd)
    return payload


def encoded_strings(program: str, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> bytes:
    """Encode program, directory, arguments and variables, each ended by NUL.

    Raises SpawnError if there is one that no program can receive.
    """
    strings = [program, cwd, *argv]
    strings += [f"{name}={value}" for name, value in env.items()]
    number = errno.EINVAL
    try:
        # As UTF-8, so that the bytes are the same in every locale.
        encoded = c_strings(strings)
        if all(name and "=" not in name for name in env):
            return encoded
    except UnicodeEncodeError:
        number = errno.EILSEQ
    except ValueError:
        pass
    raise SpawnError(SpawnStage.REQUEST, number, program, cwd, _flaw(program, argv, cwd, env))


def _flaw(program: str, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> str:
    """Say what is wrong with the strings. Values of variables stay secret."""
    named = {
        "the program": program,
        "the working directory": cwd,
        **{f"argument {index} ({value!r})": value for index, value in enumerate(argv)},
        **{f"the environment variable {name!r}": f"{name}{value}" for name, value in env.items()},
    }
    for name, value in named.items():
        if "\0" in value:
            return f"{name} {NUL_FLAW}"
        if any(0xD800 <= ord(character) < 0xDC80 for character in value):
            return f"{name} contains half of a surrogate pair, which has no UTF-8 form"
    name = next((name for name in env if not name or "=" in name), "")
    return f"{name!r} can't be the name of an environment variable"

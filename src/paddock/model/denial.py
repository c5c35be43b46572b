"""What a sandbox kept a command from.

A value that the sandbox decides, the process carries and the wire shows. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from paddock.model.endpoint import Endpoint

OWN: Final = "run by paddock itself"
"""The prefix of a rule that is not the profile's: Paddock denies this to every command."""

NOT_NAMED: Final = "network.allow does not name it"
"""The rule for a host that is neither denied nor allowed."""


class DenialKind(StrEnum):
    """What the command wanted to do."""

    WRITE = "write"
    """To make, change, rename or remove a file."""

    READ = "read"
    """To read a file, or to list or enter a directory."""

    NETWORK = "network"
    """To connect to another process or host by a socket, or to accept a connection."""

    EXEC = "exec"
    """To run a file."""

    SYSCALL = "syscall"
    """To make a system call that no profile allows."""


class Denial(Struct, frozen=True):
    """One thing that a command wanted and did not get."""

    kind: DenialKind
    target: str | None
    """A path, an address or a call, as the command saw it; None if unknown."""
    rule: str | None
    """The part of the profile that refuses it, in the profile's words; None if unknown."""
    is_certain: bool
    """Whether the profile implies the denial; otherwise only the command's output suggests it."""
    endpoint: Endpoint | None = None
    """The host that it wanted to reach, if it asked its proxy."""
    grant: str | None = None
    """The path that a profile must let it write, or read, for this to work; None if unknown, or if
    that grant would not be enough."""


class Trace(Struct, frozen=True):
    """What a command was refused, each once and in the order of the first attempt."""

    denials: tuple[Denial, ...] = ()
    more: int = 0
    """Number of further refused attempts that did not fit."""

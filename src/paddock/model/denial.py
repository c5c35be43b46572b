"""What a sandbox kept a command from.

A value that the sandbox decides, the process carries and the wire shows. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from paddock.model.endpoint import Endpoint

OWN: Final = "run by paddock itself"
"""How a rule begins that is not the profile's: Paddock keeps this from every command."""

NOT_NAMED: Final = "network.allow does not name it"
"""The rule about a host that nobody denies, and nobody allows."""


class DenialKind(StrEnum):
    """What the command wanted to do."""

    WRITE = "write"
    """To make, change, rename or remove a file."""

    READ = "read"
    """To read a file, or to list or enter a directory."""

    NETWORK = "network"
    """To reach somebody by a socket, or to be reached."""

    EXEC = "exec"
    """To run a file."""

    SYSCALL = "syscall"
    """To make a system call that no profile allows."""


class Denial(Struct, frozen=True):
    """One thing that a command wanted and did not get."""

    kind: DenialKind
    target: str | None
    """A path, an address or a call, as the command saw it; None if that is not known."""
    rule: str | None
    """What of the profile refuses it, in the profile's words; None if that is not known."""
    is_certain: bool
    """Whether it follows from the profile, and not from words of the command alone."""
    endpoint: Endpoint | None = None
    """Whom it wanted to reach, if its proxy was asked."""
    grant: str | None = None
    """The path that a profile must let it write, or read, for this to work; None if that is not known, or
    would not be enough."""


class Trace(Struct, frozen=True):
    """What a command was refused, each once and in the order of the first attempt."""

    denials: tuple[Denial, ...] = ()
    more: int = 0
    """Attempts that were refused, too, for which there was no room."""

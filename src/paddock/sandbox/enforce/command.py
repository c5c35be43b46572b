"""A command that is to be confined, as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Command(Struct, frozen=True):
    """A program to run, and where.

    All of it comes from whoever asks for the command. None of it is given to a program that is not
    confined: arguments and environment travel to paddock-init as data.
    """

    argv: Sequence[str]
    """Nothing for a sandbox that others enter; it is kept until SIGTERM."""
    cwd: str
    """Absolute."""
    project_roots: tuple[str, ...]
    environment: Mapping[str, str]
    """The environment of the command."""
    arg0: str | None = None
    """The name that the program sees as its own, if not `argv[0]`."""
    root_id: tuple[int, int] | None = None
    """Device and inode of the first project root, where they are known otherwise than by its path."""

"""A command to confine, as data. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Command(Struct, frozen=True):
    """A program to run, and where.

    All of it comes from whoever asks for the command, so no unconfined program gets any of it: arguments and
    environment travel to paddock-init as data.
    """

    argv: Sequence[str]
    """Empty for a sandbox that others enter, which stays until SIGTERM."""
    cwd: str
    """Absolute."""
    project_roots: tuple[str, ...]
    environment: Mapping[str, str]
    """The environment of the command."""
    arg0: str | None = None
    """The name that the program sees as its own, if it is not `argv[0]`."""
    root_id: tuple[int, int] | None = None
    """Device and inode of the first project root, if they are known from something other than its path."""

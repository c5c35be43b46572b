"""The exit statuses of the command line, which are those of a shell, env(1) and timeout(1).

A verb that runs a command passes on the command's own status and has 125 to 127 for failures of its own. All
others end with 0 or 1, and argparse with 2 if the command line is wrong.
"""

from __future__ import annotations

from errno import EACCES, ENOENT, ENOEXEC, EPERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FAILURE: Final = 1
USAGE: Final = 2
OWN_FAILURE: Final = 125
"""The command was not started, its output is lost, or its fate is unknown."""
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
"""`of_signal` of SIGINT and SIGPIPE, without the time it takes to import `signal`."""

_LARGEST: Final = 255
"""The kernel keeps eight bits of a status (_exit(2)): 256 would be a success."""

_OF_ERRNO: Final = {
    ENOENT: NOT_FOUND,
    EACCES: NOT_EXECUTABLE,
    EPERM: NOT_EXECUTABLE,
    ENOEXEC: NOT_EXECUTABLE,
}


def of_command(status: int) -> int:
    """Return the status that a server reports of a command, or that of a failure if no process here can have
    it."""
    return status if 0 <= status <= _LARGEST else _LARGEST


def of_signal(number: int) -> int:
    """Return the status by which a shell reports a program that a signal ended."""
    return 128 + number


def of_failed_start(errno: int | None) -> int:
    """Return what a shell gives for a program that execve(2) refused; None is any other failure."""
    return OWN_FAILURE if errno is None else _OF_ERRNO.get(errno, OWN_FAILURE)

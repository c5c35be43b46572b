"""Runs a command as an ordinary user who can reach the interpreter and this clone, wherever they are.

    unshare --mount -- python -m tests.ecosystem.as_user DIRECTORY COMMAND...

The process must be root, in a mount namespace of its own. The directory becomes the user's home.
"""

from __future__ import annotations

import os
import sys

from tests.sandbox.reachable import open_the_way

ORDINARY = 61234
"""A user that no host knows, so that nothing is granted by accident."""


def main(home: str, *command: str) -> None:
    """Give up root for good, and become the command."""
    os.chown(home, ORDINARY, ORDINARY)
    open_the_way()
    os.setgroups([])
    os.setgid(ORDINARY)
    os.setuid(ORDINARY)
    own = {"HOME": home, "USER": "ordinary", "LOGNAME": "ordinary", "TMPDIR": "/tmp"}
    # A directory that is covered now would still be the old one.
    os.chdir(os.environ["PWD"])
    os.execve(command[0], command, {**os.environ, **own})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs one line of shell in a sandbox for a program that can only start commands, such as Claude Code.

    python -I -m paddock.adapters.confined_line PROFILE DIRECTORY LINE

The line runs where this program is started, under a profile whose workspace is the directory. Its output
passes through as it arrives, then standard error lists what the sandbox denied. The program ends with the
line's exit status.
"""

from __future__ import annotations

import asyncio
import os
import sys

from paddock.adapters.outcome import SHELL
from paddock.adapters.shell_program import STDERR, STDOUT, named_profile, run_in, write_all
from paddock.client.process import Process
from paddock.client.workspace import Workspace
from paddock.model.stream import Stream


def confined_command(profile: str, directory: str, line: str) -> list[str]:
    """Return the command that runs a line in a sandbox."""
    # Isolated: no variable of the caller tells our own Python what to import.
    return [sys.executable, "-I", "-m", __name__, profile, directory, line]


async def run(profile: str, directory: str, line: str) -> int:
    """Run a line to its end and return its status."""
    workspace = Workspace(directory=directory, profile=named_profile(profile))

    async def passed_on() -> Process:
        process = await workspace.start([*SHELL, line], cwd=os.getcwd())
        async for output in process:
            write_all(STDERR if output.stream is Stream.STDERR else STDOUT, output.data)
        return process

    return await run_in(workspace, "The command", passed_on)


if __name__ == "__main__":
    sys.exit(asyncio.run(run(*sys.argv[1:])))

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

import msgspec

from paddock.adapters.outcome import NOT_STARTED, SHELL, ending_notes
from paddock.client.ending import Ending
from paddock.client.workspace import Workspace
from paddock.errors import PaddockError, SpawnError
from paddock.model.stream import Stream


def confined_command(profile: str, directory: str, line: str) -> list[str]:
    """Return the command that runs a line in a sandbox."""
    # Isolated: no variable of the caller tells our own Python what to import.
    return [sys.executable, "-I", "-m", __name__, profile, directory, line]


async def run(profile: str, directory: str, line: str) -> int:
    """Run a line to its end and return its status."""
    wanted = msgspec.json.decode(profile) if profile.startswith("{") else profile
    workspace = Workspace(directory=directory, profile=wanted)
    try:
        process = await workspace.start([*SHELL, line], cwd=os.getcwd())
        async for output in process:
            os.write(2 if output.stream is Stream.STDERR else 1, output.data)
        status = await process.wait()
        for note in ending_notes(process.ending or Ending(status), workspace):
            _say(note)
        return status
    except SpawnError as error:
        _say(str(error))
        return NOT_STARTED
    except PaddockError as error:
        _say(f"The command was not run: {error}")
        return NOT_STARTED
    finally:
        await workspace.aclose()


def _say(note: str) -> None:
    os.write(2, f"Note: {note}\n".encode())


if __name__ == "__main__":
    sys.exit(asyncio.run(run(*sys.argv[1:])))

"""Runs what takes the place of a shell: tells of its end, and gives its status to whoever started it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from paddock.adapters.outcome import NOT_STARTED, ending_text
from paddock.client.ending import Ending
from paddock.client.process import Process
from paddock.client.workspace import Workspace
from paddock.errors import PaddockError, SpawnError

STDOUT: Final = 1
STDERR: Final = 2


def named_profile(word: str) -> str | dict[str, Any]:
    """Return a profile that is a word of the command line: its name, or all of it as JSON."""
    return msgspec.json.decode(word) if word.startswith("{") else word


async def run_in(workspace: Workspace, what: str, run: Callable[[], Awaitable[Process]]) -> int:
    """Run a process to its end, and return its status. Closes the workspace.

    `run` starts it and passes its output on until there is none any more. Standard error says afterwards what
    the sandbox denied, or that `what` was not run.
    """
    try:
        process = await run()
        status = await process.wait()
        _tell(ending_text(process.ending or Ending(status), workspace))
        return status
    except SpawnError as error:
        _tell(f"Note: {error}\n")
        return NOT_STARTED
    except PaddockError as error:
        _tell(f"Note: {what} was not run: {error}\n")
        return NOT_STARTED
    finally:
        await workspace.aclose()


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, for as long as that takes."""
    while data:
        data = data[os.write(descriptor, data) :]


def _tell(text: str) -> None:
    write_all(STDERR, text.encode())

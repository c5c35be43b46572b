"""The tool `shell`: one Bash command line, in a sandbox, with rules about every program that it executes.

A call returns when Bash has exited or its time is over, and leaves nothing of the command running. A
cancelled call ends the command, and the programs of it that run outside of the sandbox.
"""

from __future__ import annotations

import asyncio
import posixpath
import time
from contextlib import suppress
from typing import Final
from uuid import uuid4

from msgspec import Struct

from paddock.agent.truncation import DEFAULT_TOKENS
from paddock.agent.unified_exec import ENVIRONMENT
from paddock.agent.yield_clock import YieldClock
from paddock.client.box import Box
from paddock.client.confinement import Sandbox
from paddock.client.process import KILL_TIMEOUT_S, Process
from paddock.errors import CallRejected, NotFound, PaddockError, ProcessLost, RequestError
from paddock.mcp_server.pending_call import PendingCall
from paddock.mcp_server.shell_arguments import DEFAULT_TIMEOUT_MS, ShellArguments
from paddock.mcp_server.shell_questions import SHELL_PREFIX, ShellQuestions
from paddock.mcp_server.shell_reply import ShellOutput, ShellReply, shell_reply
from paddock.protocol.intercept import InterceptParams

TRAILING_OUTPUT_S: Final = 0.1
"""How long output is read after the exit: what Bash leaves behind may keep it open."""

BASH: Final = "/bin/bash"


class ShellTerms(Struct, frozen=True):
    """The terms of one call, apart from its arguments."""

    sandbox: Sandbox | None
    intercept: InterceptParams | None
    """The rules about programs; None if there are none."""
    questions: ShellQuestions


class _Reader:
    """Reads a process until its output ends."""

    def __init__(self, process: Process) -> None:
        self.output = ShellOutput()
        self._process = process

    async def read(self) -> None:
        with suppress(ProcessLost):
            # Set by the task that waits for the exit.
            async for item in self._process.output(on_gap="yield"):
                self.output.add(item)


async def run_shell(box: Box, call: PendingCall, arguments: ShellArguments, terms: ShellTerms) -> ShellReply:
    """Run the command line. Raises CallRejected if there is no such directory, and the errors of
    `Box.start`."""
    if not arguments.workdir.startswith("/"):
        raise CallRejected(f"the workdir {arguments.workdir!r} is not an absolute path")
    timeout_ms = DEFAULT_TIMEOUT_MS if arguments.timeout_ms is None else arguments.timeout_ms
    clock = YieldClock()
    # Chosen here, because the server may ask about its first program before it answers the start.
    process_id = f"{SHELL_PREFIX}{uuid4().hex}"
    began = time.monotonic()
    with terms.questions.asked_for(process_id, call, clock):
        try:
            process = await box.start(
                words_of(box, arguments),
                cwd=arguments.workdir,
                extra_env=ENVIRONMENT,
                process_id=process_id,
                sandbox=terms.sandbox,
                intercept=terms.intercept if terms.sandbox is not None else None,
            )
        except RequestError:
            # Checking before each start would take as long as some commands do.
            await _check_directory(box, arguments.workdir, terms.sandbox)
            raise
        ends_alone = terms.sandbox is not None and terms.intercept is None
        return await _finished(process, clock, timeout_ms / 1000, began, ends_alone=ends_alone)


async def _finished(
    process: Process, clock: YieldClock, timeout_s: float, began: float, *, ends_alone: bool
) -> ShellReply:
    """Wait until the command ends or its time is over. Kill the command when cancelled.

    If it `ends_alone`, nothing that it has started outlives it, as long as the server is one of Paddock's.
    """
    reader = _Reader(process)
    reading = asyncio.create_task(reader.read())
    waiting = asyncio.create_task(process.wait())
    notes: list[str] = []
    try:
        async with clock.limit(timeout_s):
            await asyncio.wait((waiting,))
        timed_out = not waiting.done()
        if timed_out:
            process.kill_now()
            await asyncio.wait((waiting,), timeout=KILL_TIMEOUT_S)
        duration_s = time.monotonic() - began
        await asyncio.wait((reading,), timeout=TRAILING_OUTPUT_S)
        if not reading.done():
            notes.append("A program that it started still held its output; the rest is not shown.")
        if waiting.done() and (error := waiting.exception()) is not None:
            if not isinstance(error, PaddockError):
                raise error
            notes.append(f"It is not known how the command ended: {error}")
        return shell_reply(
            reader.output,
            process.ending,
            duration_s=duration_s,
            timed_out=timed_out,
            limit_tokens=DEFAULT_TOKENS,
            notes=tuple(notes),
        )
    finally:
        # Other servers tell no cause.
        if not ends_alone or process.ending is None or process.ending.cause is None:
            process.kill_now()
        for task in (reading, waiting):
            task.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


async def _check_directory(box: Box, path: str, sandbox: Sandbox | None) -> None:
    """Explain a failed start if the cause is the directory."""
    files = box.fs if sandbox is None else box.fs.confined(sandbox)
    try:
        status = await files.metadata(path)
    except NotFound as error:
        raise CallRejected(f"there is no directory {path!r} to run it in") from error
    if not status.is_directory:
        raise CallRejected(f"the workdir {path!r} is not a directory")


def words_of(box: Box, arguments: ShellArguments) -> tuple[str, ...]:
    """Return what is started for a line."""
    shell = box.environment.shell.path
    bash = shell if posixpath.basename(shell) == "bash" else BASH
    return (bash, "-c" if arguments.login is False else "-lc", arguments.command)

"""Runs a shell in a sandbox for LangChain's shell tool, and tells what the sandbox denied its commands.

    python -I -m paddock.adapters.relayed_shell PROFILE COMMAND...

The shell runs where this program is started, which is its workspace, and gets this program's variables.
Behind each command the tool has the shell print a marker with the command's status. This program adds its
notes in front of a marker whose command failed. Everything else passes through as it arrives.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import deque
from typing import Final

from paddock.adapters.outcome import EXPLAINED_BYTES, explained
from paddock.adapters.shell_program import STDOUT, named_profile, run_in, write_all
from paddock.client.process import Process
from paddock.client.workspace import Workspace
from paddock.model.stream import Stream

READ_BYTES: Final = 1 << 16

LINE_BYTES: Final = 1 << 20
"""The most of an unfinished line of input to wait for the rest of; more passes through."""

LATER: Final = 100
"""How many commands may wait for the end of the one that runs; the tool sends one at a time."""

_ASK: Final = re.compile(rb"^printf '([\w-]*[0-9a-f]{32}) %s\\n' \$\?\n", re.MULTILINE)
"""How the tool asks for the status of a command. A command itself may have a line like it, for example in a
script that it writes, but not with a random number in it."""

_ANSWER: Final = rb"""printf '\1 %d %s\\n' $? "$PWD$(printf '\1\\n' >&2)"\n"""
"""How the shell is asked instead: for its directory too, because refused names are relative to it, and for a
marker in stderr, which has a pipe of its own. What is in front of both markers belongs to the command."""


class Relay:
    """Both directions of one shell."""

    def __init__(self, process: Process, workspace: Workspace) -> None:
        self._process = process
        self._workspace = workspace
        self._commands: deque[tuple[bytes, bytes]] = deque(maxlen=LATER)
        """A marker and the command in front of it."""
        self._said = bytearray()
        """The end of what the running command has written."""
        self._held = b""
        self._held_error = b""
        """Output of both streams that waits for a marker, or may be the beginning of one."""
        self._has_all_errors = False
        self._is_in_line = False

    async def send(self, input: asyncio.StreamReader) -> None:
        """Pass the input on until it ends."""
        line = b""
        command = b""
        while data := await input.read(READ_BYTES):
            line += data
            whole, line = _split(line)
            begin = 0
            for asked in _ASK.finditer(whole):
                self._commands.append((asked[1], command + whole[begin : asked.start()]))
                command, begin = b"", asked.end()
            command = (command + whole[begin:])[-LINE_BYTES:]
            await self._process.write(_ASK.sub(_ANSWER, whole))
        await self._process.write(line)
        await self._process.close_stdin()

    async def receive(self) -> int:
        """Pass the output on until the shell ends; return its status."""
        async for output in self._process:
            if output.stream is Stream.STDERR:
                self._pass_error(output.data)
                await self._pass(b"")
            else:
                await self._pass(output.data)
        self._write(1, self._held)
        self._write(2, self._held_error)
        return await self._process.wait()

    def _pass_error(self, data: bytes) -> None:
        data = self._held_error + data
        marker = self._commands[0][0] if self._commands else b""
        before, found, after = data.partition(marker + b"\n") if marker else (data, b"", b"")
        if found and not self._has_all_errors:
            self._has_all_errors = True
            self._write(2, before)
            self._held_error = after
            return
        kept = _beginning(data, marker)
        self._held_error = data[len(data) - kept :]
        self._write(2, data[: len(data) - kept])

    async def _pass(self, data: bytes) -> None:
        data = self._held + data
        while self._commands:
            marker, command = self._commands[0]
            found = re.search(rb"%b (\d+) (.*)\n" % re.escape(marker), data)
            if found is None or not self._has_all_errors:
                break
            self._commands.popleft()
            self._has_all_errors = False
            self._write(1, data[: found.start()])
            if self._is_in_line:
                # The tool looks for its marker at the beginning of a line.
                self._write(1, b"\n")
            await self._explain(command, int(found[1]), os.fsdecode(found[2]))
            write_all(STDOUT, b"%b %b\n" % (marker, found[1]))
            data = data[found.end() :]
            self._pass_error(b"")
        marker = self._commands[0][0] if self._commands else b""
        kept = _beginning(data, marker)
        self._held = data[len(data) - kept :]
        self._write(1, data[: len(data) - kept])

    async def _explain(self, command: bytes, status: int, cwd: str) -> None:
        said = self._said.decode("utf-8", "replace")
        self._said.clear()
        for note in await explained(self._workspace, os.fsdecode(command), said, status, cwd=cwd):
            write_all(STDOUT, f"Note: {note}\n".encode())

    def _write(self, descriptor: int, data: bytes) -> None:
        self._said += data
        del self._said[:-EXPLAINED_BYTES]
        if descriptor == 1 and data:
            self._is_in_line = not data.endswith(b"\n")
        write_all(descriptor, data)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Return the whole lines, and the beginning of another."""
    end = data.rfind(b"\n") + 1
    return (data[:end], data[end:]) if len(data) - end < LINE_BYTES else (data, b"")


def _beginning(data: bytes, marker: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a line with a marker."""
    if not marker:
        return 0
    begin = data.rfind(marker)
    if begin >= 0 and len(data) - begin < LINE_BYTES:
        return len(data) - begin
    return next((size for size in range(len(marker) - 1, 0, -1) if data.endswith(marker[:size])), 0)


async def run(profile: str, *command: str) -> int:
    """Run a shell to its end and return its status."""
    workspace = Workspace(directory=os.getcwd(), profile=named_profile(profile), inherits_env=False)
    input = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(input), sys.stdin.buffer
    )

    async def relayed() -> Process:
        process = await workspace.start(command, env=dict(os.environ), stdin=True)
        relay = Relay(process, workspace)
        sending = asyncio.create_task(relay.send(input))
        try:
            await relay.receive()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return process

    return await run_in(workspace, "The shell", relayed)


if __name__ == "__main__":
    sys.exit(asyncio.run(run(*sys.argv[1:])))

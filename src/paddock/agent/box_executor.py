"""The executor behind a `Box`: a server far away, or a private one on this host."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from paddock.agent.executor import Command, Executor, FileAccess, PreparedExecSpec, RunningCommand
from paddock.agent.linkless_files import LinklessFiles
from paddock.agent.permission import confinement_of
from paddock.agent.text_edit import edited
from paddock.client.box import Box
from paddock.client.capability import require
from paddock.client.confinement import Sandbox
from paddock.client.connect import Connecting, connect
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.files import Files
from paddock.client.inbox import Output
from paddock.client.process import Process
from paddock.client.wire_path import local_name
from paddock.errors import OperationFailed, PaddockError, RequestError, RunTimeout
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult

CLIENT_NAME: Final = "paddock-agent"
ENV_PROGRAM: Final = "/usr/bin/env"
VARIABLES_TIMEOUT_S: Final = 10.0
"""Time for a program that does nothing but write its variables."""

Decide = Callable[[ExecApprovalParams], Awaitable[ExecApprovalResult]]


class BoxCommand:
    """A process of a box, as the agent sees it."""

    def __init__(self, process: Process, when_ended: Callable[[], object] | None = None) -> None:
        self._process = process
        self._when_ended = when_ended

    def output(self) -> AsyncIterator[Output | Gap]:
        """Return what it writes."""
        return self._process.output(on_gap="yield")

    async def wait(self) -> Ending:
        """Return how it ended."""
        try:
            exit_code = await self._process.wait()
        except PaddockError:
            self._note_end()
            raise
        self._note_end()
        return self._process.ending or Ending(exit_code)

    def _note_end(self) -> None:
        if self._when_ended is not None:
            self._when_ended()

    async def write(self, data: bytes) -> None:
        """Write to its stdin or terminal."""
        await self._process.write(data)

    async def close_stdin(self) -> None:
        """Let it read the end of its input."""
        await self._process.close_stdin()

    async def interrupt(self) -> None:
        """Send SIGINT."""
        await self._process.signal("INT")

    def kill(self) -> None:
        """Ask for its end."""
        self._process.kill_now()


class BoxFiles:
    """The files of a box, as the agent sees them, with what a server of the reference protocol lacks."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.read_file = files.read_file
        self.metadata = files.metadata
        self.canonicalize = files.canonicalize
        self.way = files.way
        self.has_other_names = files.has_other_names
        self.may_lead_into = files.may_lead_into
        self.walk = files.walk
        self.search = files.search
        self.create_directory = files.create_directory
        self.remove = files.remove

    async def read_head(self, path: str, limit_bytes: int) -> bytes:
        """Return the first bytes."""
        async with self._files.reader(path) as reader:
            return await reader.read_block(0, limit_bytes)

    async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
        """Replace the content, as a whole where the server can do that."""
        await self._files.write_file(path, data, atomic=atomic and self._files.has("atomicWrites"))

    async def set_mode(self, path: str, mode: int) -> None:
        """Set the permissions, where the server can do that."""
        if self._files.has("fsChmod"):
            await self._files.chmod(path, mode)

    async def edit(self, path: str, old: str, new: str, count: int) -> str:
        """Replace a text that occurs exactly so often; return the diff."""
        if self._files.has("fsEdit"):
            return await self._files.edit(path, (old, new, count))
        data, diff = edited(path, await self._files.read_file(path), old, new, count)
        await self._files.write_file(path, data)
        return diff


class BoxExecutor:
    """Runs commands on the server of a box; the box is closed with it if it owns it."""

    def __init__(self, box: Box, *, is_owner: bool, questions: ProgramQuestions | None = None) -> None:
        self._box = box
        self._is_owner = is_owner
        self._questions = questions
        self._variables: dict[str, str] | None = None

    @property
    def identity(self) -> str:
        """Return the server's name for its host and user."""
        return self._box.environment.provider_id

    @property
    def shell(self) -> str:
        """Return the shell of the server's user."""
        return self._box.environment.shell.path

    @property
    def cwd(self) -> str:
        """Return the server's own directory."""
        return local_name(self._box.environment.cwd)

    @property
    def temporary_directory(self) -> str | None:
        """Return what TMPDIR names there."""
        named = self._box.environment.temporary_directories
        return local_name(named[0]) if named else None

    @property
    def intercepts(self) -> bool:
        """Return whether the server intercepts programs, and asks the agent about them."""
        return self._questions is not None and self._box.has("execInterception")

    async def search_path(self, sandbox: Sandbox | None) -> str | None:
        """Return PATH among the variables that the server gives every command."""
        return (await self._known_variables(sandbox)).get("PATH")

    async def prepare(self, command: Command, sandbox: Sandbox | None) -> PreparedExecSpec | None:
        """Look up program, directory and variables, where the server takes prepared starts."""
        if not self._box.has("preparedExec"):
            return None
        files = self.files(sandbox)
        try:
            variables = await self._known_variables(sandbox)
            program = await files.canonicalize(command.argv[0])
            cwd = await files.canonicalize(command.cwd)
        except (RequestError, RunTimeout):
            # The start itself will say what is wrong with it.
            return None
        argv = (program, *command.argv[1:])
        return PreparedExecSpec(argv, command.argv[0], cwd, variables | dict(command.env))

    async def _known_variables(self, sandbox: Sandbox | None) -> dict[str, str]:
        if self._variables is None:
            self._variables = await self._inherited(sandbox)
        return self._variables

    async def _inherited(self, sandbox: Sandbox | None) -> dict[str, str]:
        """Return what the server gives every command of its own variables. Raises RequestError."""
        if sandbox is not None and not isinstance(sandbox.profile, os.PathLike):
            # The proxy of a sandbox, and the file of whom to trust, are nothing outside, or somebody else's.
            sandbox = replace(sandbox, profile=confinement_of(sandbox.profile).without_proxy())
        done = await self._box.run([ENV_PROGRAM, "-0"], sandbox=sandbox, timeout_s=VARIABLES_TIMEOUT_S)
        if done.returncode != 0:
            raise OperationFailed(f"{ENV_PROGRAM} ended with status {done.returncode}")
        pairs = (
            entry.partition("=") for entry in done.stdout.decode("utf-8", "replace").split("\0") if entry
        )
        return {name: value for name, _, value in pairs}

    async def start(self, command: Command) -> RunningCommand:
        """Start a command on the server."""
        if command.has_stdin and not command.is_terminal:
            require(self._box.environment, "processCloseStdin", "close stdin after the input")
        without_links = command.cwd_without_links and self._box.has("cwdWithoutLinks")
        if command.prepared is not None:
            spec = command.prepared
            process = await self._box.start_prepared(
                spec.argv,
                cwd=spec.cwd,
                env=spec.env,
                arg0=spec.arg0,
                stdin=command.has_stdin,
                tty=command.is_terminal,
                cwd_without_links=without_links,
            )
            return BoxCommand(process)
        programs = command.programs
        process = await self._box.start(
            command.argv,
            cwd=command.cwd,
            extra_env=command.env,
            stdin=command.has_stdin,
            tty=command.is_terminal,
            sandbox=command.sandbox,
            intercept=None if programs is None else programs.params,
            cwd_without_links=without_links,
        )
        if programs is not None and self._questions is not None:
            return self._questions.answered_by(process, programs.decide)
        return BoxCommand(process)

    def files(self, sandbox: Sandbox | None, *, without_links: bool = False) -> FileAccess:
        """Return the server's files."""
        files = self._box.fs if sandbox is None else self._box.fs.confined(sandbox)
        return LinklessFiles(files) if without_links else BoxFiles(files)

    async def aclose(self) -> None:
        """Close the box, if it was opened here."""
        if self._is_owner:
            await self._box.aclose()


class ProgramQuestions:
    """Hands what a server asks about programs to the agent's call that started the command."""

    def __init__(self) -> None:
        self._deciding: dict[str, asyncio.Future[Decide]] = {}

    async def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        """Answer, once the start has been answered: a question may come before that."""
        decide = await asyncio.shield(self._future(params.process_id))
        return await decide(params)

    def answered_by(self, process: Process, decide: Decide) -> BoxCommand:
        """Let `decide` answer what is asked about a process, until it has ended."""
        self._future(process.process_id).set_result(decide)
        return BoxCommand(process, lambda: self._deciding.pop(process.process_id, None))

    def _future(self, process_id: str) -> asyncio.Future[Decide]:
        if process_id not in self._deciding:
            self._deciding[process_id] = asyncio.get_running_loop().create_future()
        return self._deciding[process_id]


async def open_executor(
    target: str | Connecting | Box | Executor | None, *, allow_escalation: bool = False
) -> Executor:
    """Return the executor of a target: for None, a private server. Raises ConnectError and ValueError.

    With `allow_escalation` the connection is made so that the server can ask about programs.
    """
    if isinstance(target, str) or target is None:
        target = connect(
            target, client_name=CLIENT_NAME, allow_escalation=allow_escalation and target is None
        )
    if isinstance(target, Connecting):
        questions = ProgramQuestions() if allow_escalation else None
        if questions is not None:
            target.answer(EXEC_APPROVAL, questions)
        return BoxExecutor(await target, is_owner=True, questions=questions)
    if isinstance(target, Box):
        if allow_escalation:
            raise ValueError("an open box can no longer be asked about programs; give connect(...) itself")
        return BoxExecutor(target, is_owner=False)
    return target

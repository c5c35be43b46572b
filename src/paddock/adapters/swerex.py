"""Paddock as a runtime and a deployment of SWE-ReX.

    from paddock.adapters.swerex import PaddockDeployment

    deployment = PaddockDeployment()
    await deployment.start()
    runtime = deployment.runtime

`paddock serve --swerex` offers the same over HTTP, to an unchanged `RemoteDeployment`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionResponse,
    CloseResponse,
    Command,
    CommandResponse,
    CreateBashSessionResponse,
    IsAliveResponse,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)

from paddock.adapters.bash_session import BashSession, Observed
from paddock.adapters.conversation import ConversationOver
from paddock.adapters.outcome import bounded, ending_text, file_note
from paddock.client.completed_process import CompletedProcess
from paddock.client.workspace import PROFILE, Target, Workspace
from paddock.errors import OutputTooLarge, PaddockError, RunTimeout, SpawnError
from paddock.model.denial import DenialKind

OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""The most output of each stream of one command; a command that writes more is ended."""

MERGED: Final = ("sh", "-c", 'exec "$@" 2>&1', "sh")


class PaddockRuntime(AbstractRuntime):
    """Sessions, commands and files of one workspace."""

    def __init__(self, workspace: Workspace, *, logger: logging.Logger | None = None) -> None:
        self.workspace = workspace
        self.logger = logger or logging.getLogger(__name__)
        self._sessions: dict[str, BashSession] = {}

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Return whether the server answers."""
        try:
            there = await self.workspace.open()
            await there.box.path(there.directory).exists()
        except PaddockError as error:
            return IsAliveResponse(is_alive=False, message=str(error))
        return IsAliveResponse(is_alive=True)

    # --- sessions -----------------------------------------------------------

    async def create_session(self, request: Any) -> CreateBashSessionResponse:
        """Start a Bash on a terminal."""
        if request.session in self._sessions:
            raise SessionExistsError(f"session {request.session} already exists")
        session = self._sessions[request.session] = BashSession(self.workspace)
        try:
            return CreateBashSessionResponse(
                output=await session.start(request.startup_source, request.startup_timeout)
            )
        except BaseException:
            del self._sessions[request.session]
            await session.close()
            raise

    async def run_in_session(self, action: Any) -> BashObservation:
        """Run a line, type one for a program that runs, or interrupt it."""
        session = self._session(action.session)
        try:
            if isinstance(action, BashInterruptAction):
                seen = await session.interrupt(action.timeout, action.n_retry, action.expect)
                return _observation(seen, seen.output.strip(), 0)
            if action.is_interactive_command or action.is_interactive_quit:
                return await self._type(session, action)
            await self._check_syntax(action.command)
            seen = await session.run(action.command, action.timeout, action.expect)
        except TimeoutError as error:
            within = f"timeout after {action.timeout} seconds"
            what = getattr(action, "command", "interrupt")
            raise CommandTimeoutError(f"{within} while running command {what!r}") from error
        except ConversationOver:
            del self._sessions[action.session]
            await session.close()
            return BashObservation(failure_reason="the shell has ended, and the session with it")
        return _checked(seen, action)

    async def _type(self, session: BashSession, action: Any) -> BashObservation:
        seen = await session.type(action.command, action.timeout, action.expect)
        if action.is_interactive_quit:
            await session.restore()
            return _observation(seen, seen.output, 0)
        # A program that has configured the terminal for itself may echo what was typed.
        return _observation(seen, seen.output.lstrip().removeprefix(action.command).strip(), 0)

    async def _check_syntax(self, line: str) -> None:
        done = await self.workspace.run(["bash", "-n"], input=line.encode("utf-8", "replace"))
        if done.returncode:
            said = {"bash_stdout": _text(done.stdout), "bash_stderr": _text(done.stderr)}
            raise BashIncorrectSyntaxError(f"{line!r} is no command: {said['bash_stderr']}", extra_info=said)

    async def close_session(self, request: Any) -> CloseBashSessionResponse:
        """End a session with everything in it."""
        await self._session(request.session).close()
        del self._sessions[request.session]
        return CloseBashSessionResponse()

    def _session(self, name: str) -> BashSession:
        if name not in self._sessions:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._sessions[name]

    # --- commands -----------------------------------------------------------

    async def execute(self, command: Command) -> CommandResponse:
        """Run a command to its end. Its output ends with what the sandbox denied."""
        try:
            done = await self._run(command)
        except RunTimeout as error:
            told = f"timeout ({command.timeout} s) exceeded by the command"
            output = bounded(error.stdout + error.stderr)[0]
            raise CommandTimeoutError(f"{told}; its output so far: {output!r}") from error
        except SpawnError as error:
            raise FileNotFoundError(str(error)) from error
        except OutputTooLarge as error:
            raise SwerexException(str(error)) from error
        notes = ending_text(done.ending, self.workspace)
        out, err = _text(done.stdout), _text(done.stderr)
        if command.merge_output_streams:
            out += notes
        else:
            err += notes
        if command.check and done.returncode:
            told = f"command {command.command!r} failed with exit code {done.returncode}: {out!r} {err!r}"
            raise NonZeroExitCodeError(f"{command.error_msg}: {told}" if command.error_msg else told)
        return CommandResponse(stdout=out, stderr=err, exit_code=done.returncode)

    async def _run(self, command: Command) -> CompletedProcess[bytes]:
        argv = ["sh", "-c", str(command.command)] if command.shell else _words(command.command)
        if command.merge_output_streams:
            argv = [*MERGED, *argv]
        cwd = command.cwd or ""
        if command.env is None:
            return await self.workspace.run(
                argv, cwd=cwd, timeout_s=command.timeout, output_limit_bytes=OUTPUT_BYTES
            )
        there = await self.workspace.open()
        return await there.box.run(
            argv,
            cwd=there.locate(cwd),
            # The whole environment, as in SWE-ReX.
            env=command.env,
            timeout_s=command.timeout,
            output_limit_bytes=OUTPUT_BYTES,
            sandbox=there.sandbox,
        )

    # --- files --------------------------------------------------------------

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        """Return the content of a file."""
        try:
            data = await self.workspace.read_bytes(request.path)
        except OSError as error:
            raise self._told(error, DenialKind.READ, request.path) from error
        # Some encodings, such as punycode, take an age for a long text.
        content = await asyncio.to_thread(
            data.decode, request.encoding or "utf-8", request.errors or "strict"
        )
        return ReadFileResponse(content=content)

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        """Replace a file, or create it with the directories above it."""
        await self.write_bytes(request.path, request.content.encode())
        return WriteFileResponse()

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Do what `write_file` does, with bytes."""
        try:
            await self.workspace.write_bytes(path, data)
        except OSError as error:
            raise self._told(error, DenialKind.WRITE, path) from error

    async def upload(self, request: UploadRequest) -> UploadResponse:
        """Copy a file or a directory of this host to the server's."""
        there = await self.workspace.open()
        target = there.locate(request.target_path)
        try:
            await there.files.upload(request.source_path, target)
        except OSError as error:
            raise self._told(error, DenialKind.WRITE, target) from error
        return UploadResponse()

    async def close(self) -> CloseResponse:
        """End all sessions. The directory stays until the workspace is destroyed."""
        while self._sessions:
            await self._sessions.popitem()[1].close()
        return CloseResponse()

    def _told(self, error: OSError, kind: DenialKind, path: str) -> OSError:
        """Return the builtin error that clients know, with text that a model can act on."""
        return OSError(error.errno, file_note(error, kind, path, self.workspace), path)


class PaddockDeployment(AbstractDeployment):
    """A runtime of its own; the arguments are those of `paddock.Workspace`."""

    def __init__(
        self,
        target: Target = None,
        *,
        directory: str | None = None,
        profile: str | Mapping[str, Any] = PROFILE,
        env: Mapping[str, str] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.logger = logger or logging.getLogger(__name__)
        self._workspace = Workspace(target, directory=directory, profile=profile, env=env)
        self._hooks = CombinedDeploymentHook()
        self._runtime: PaddockRuntime | None = None

    def add_hook(self, hook: DeploymentHook) -> None:
        """Add a hook that is called at the start."""
        self._hooks.add_hook(hook)

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Return whether the server answers. Raises DeploymentNotStartedError."""
        return await self.runtime.is_alive(timeout=timeout)

    async def start(self, *arguments: Any, **options: Any) -> None:
        """Connect, and find or make the directory."""
        self._hooks.on_custom_step("Starting the sandbox")
        await self._workspace.open()
        self._runtime = PaddockRuntime(self._workspace, logger=self.logger)

    async def stop(self, *arguments: Any, **options: Any) -> None:
        """End the sessions, remove the directory if it was made here, and end the connection."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()
            await self._workspace.__aexit__(None, None, None)

    @property
    def runtime(self) -> PaddockRuntime:
        """Return the runtime. Raises DeploymentNotStartedError."""
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime


def _observation(seen: Observed, output: str, exit_code: int | None) -> BashObservation:
    return BashObservation(output=output, exit_code=exit_code, expect_string=seen.seen)


def _checked(seen: Observed, action: Any) -> BashObservation:
    output = "".join([seen.output, *(f"Note: {note}\n" for note in seen.notes)])
    if action.check == "raise" and seen.exit_code:
        told = f"command {action.command!r} failed with exit code {seen.exit_code}: {output!r}"
        raise NonZeroExitCodeError(f"{action.error_msg}: {told}" if action.error_msg else told)
    return _observation(seen, output, None if action.check == "ignore" else seen.exit_code)


def _words(command: str | list[str]) -> list[str]:
    return [command] if isinstance(command, str) else command


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")

"""Paddock as a sandbox of Inspect, registered as `paddock`: `Task(..., sandbox="paddock")`.

Every sample gets a directory of its own. `PADDOCK_URL` names a server; without it every sample has a private
one. `SandboxEnvironmentSpec("paddock", PaddockConfig(...))` says more.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUserUnsupportedError
from inspect_ai.util._sandbox.events import SandboxTimeoutError
from inspect_ai.util._sandbox.exec_remote import ExecCompleted, ExecOutput, ExecStderr, ExecStdout
from pydantic import BaseModel, ConfigDict

from paddock.adapters.outcome import NOT_STARTED, bounded, ending_text, told_file
from paddock.adapters.server_choice import URL_VARIABLE, server_target
from paddock.client.ending import Ending
from paddock.client.process import Process
from paddock.client.workspace import PROFILE, Workspace
from paddock.errors import OutputTooLarge, RunTimeout, SpawnError
from paddock.model.denial import DenialKind
from paddock.model.stream import Stream

LIMITS: Final = SandboxEnvironmentLimits

NOT_EXECUTABLE: Final = 126
_INIT: Final = b"paddock: can't run "
"""How the sandbox says, with this status, that it may not execute the program."""


class PaddockConfig(BaseModel):
    """A task's settings for its sandbox: `SandboxEnvironmentSpec("paddock", PaddockConfig(...))`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = None
    """The server; by default the one that PADDOCK_URL names, or a private one."""
    token_file: str | None = None
    """A file with the token for the server."""
    tls_ca: str | None = None
    """A file of certificates to trust, for wss://."""
    profile: str = PROFILE


class PaddockProcess:
    """A command whose output arrives as it is written; for other sandboxes, `exec_remote` polls for it."""

    def __init__(self, process: Process, workspace: Workspace) -> None:
        self._process = process
        self._workspace = workspace
        self._events = self._stream()

    @property
    def pid(self) -> int:
        """Return 0: Paddock exposes no process numbers, and Inspect only shows the number to people."""
        return 0

    def __aiter__(self) -> AsyncIterator[ExecOutput]:
        return self._events

    async def _stream(self) -> AsyncIterator[ExecOutput]:
        try:
            async for output in self._process:
                text = output.data.decode("utf-8", "replace")
                yield ExecStderr(text) if output.stream is Stream.STDERR else ExecStdout(text)
            exit_code = await self._process.wait()
            notes = ending_text(self._process.ending or Ending(exit_code), self._workspace)
            if notes:
                yield ExecStderr(notes)
            yield ExecCompleted(exit_code)
        except BaseException:
            self._process.kill_now()
            raise

    async def write_stdin(self, data: str | bytes) -> None:
        """Write to the command's input."""
        await self._process.write(data.encode() if isinstance(data, str) else data)

    async def close_stdin(self) -> None:
        """Let the command read the end of its input."""
        await self._process.close_stdin()

    async def kill(self) -> None:
        """End the command with everything that it has started."""
        self._process.kill_now()
        await self._process.wait()


@sandboxenv(name="paddock")
class PaddockSandboxEnvironment(SandboxEnvironment):
    """A confined directory for one sample."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Return the environment of a sample; nothing is made before its first use."""
        chosen = config if isinstance(config, PaddockConfig) else PaddockConfig()
        url = chosen.url or os.environ.get(URL_VARIABLE) or None
        target = server_target(url, chosen.token_file, chosen.tls_ca)
        return {"default": cls(Workspace(target, profile=chosen.profile))}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        """Remove the directories of a sample and end what runs there."""
        for environment in environments.values():
            workspace = environment.as_type(cls).workspace
            try:
                await workspace.destroy()
            finally:
                await workspace.aclose()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Return the configuration that a log holds."""
        return PaddockConfig.model_validate(config)

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command to its end. What the sandbox denied stands at the end of stderr."""
        _check_user(user)
        try:
            done = await self.workspace.run(
                cmd,
                input=input.encode() if isinstance(input, str) else input,
                timeout_s=timeout,
                output_limit_bytes=LIMITS.MAX_EXEC_OUTPUT_SIZE,
                cwd=cwd or "",
                env=env,
            )
        except RunTimeout as error:
            # Inspect shows the output to the model.
            output = bounded(error.stdout + error.stderr)[0]
            raise SandboxTimeoutError(str(error), output) from error
        except OutputTooLarge as error:
            kept = error.stdout.decode("utf-8", "replace")
            raise OutputLimitExceededError(LIMITS.MAX_EXEC_OUTPUT_SIZE_STR, kept) from error
        except SpawnError as error:
            return _not_started(error)
        if done.returncode == NOT_EXECUTABLE and done.stderr.startswith(_INIT):
            raise PermissionError(errno.EACCES, done.stderr.decode("utf-8", "replace").strip(), cmd[0])
        notes = ending_text(done.ending, self.workspace)
        stdout, stderr = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        return ExecResult(done.returncode == 0, done.returncode, stdout, stderr + notes)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Replace a file, or create it with the directories above it."""
        data = contents.encode() if isinstance(contents, str) else contents
        with told_file(DenialKind.WRITE, file, self.workspace):
            await self.workspace.write_bytes(file, data)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return a file; line ends are left as they are."""
        with told_file(DenialKind.READ, file, self.workspace):
            size_bytes = (await (await self.workspace.path(file)).stat()).size
            if size_bytes > LIMITS.MAX_READ_FILE_SIZE:
                raise OutputLimitExceededError(LIMITS.MAX_READ_FILE_SIZE_STR, None)
            data = await self.workspace.read_bytes(file)
        return data.decode() if text else data

    async def exec_remote(  # type: ignore[override, unused-ignore]
        self, cmd: list[str], options: Any = None, *, stream: bool = True
    ) -> PaddockProcess | ExecResult[str]:
        """Start a command and return its handle, or run it to its end."""
        if not stream:
            return await self.exec(
                cmd,
                input=getattr(options, "input", None),
                cwd=getattr(options, "cwd", None),
                env=getattr(options, "env", None),
                user=getattr(options, "user", None),
                timeout=getattr(options, "timeout", None),
            )
        _check_user(getattr(options, "user", None))
        first = getattr(options, "input", None)
        stays_open = getattr(options, "stdin_open", False)
        process = await self.workspace.start(
            cmd,
            cwd=getattr(options, "cwd", None) or "",
            env=getattr(options, "env", None),
            stdin=stays_open or first is not None,
        )
        handle = PaddockProcess(process, self.workspace)
        if first is not None:
            await handle.write_stdin(first)
            if not stays_open:
                await handle.close_stdin()
        return handle


def _check_user(user: str | None) -> None:
    if user is not None and user not in (str(os.geteuid()),):
        raise SandboxUserUnsupportedError(f"commands run as the user of the server, not as {user!r}")


def _not_started(error: SpawnError) -> ExecResult[str]:
    if error.errno in (errno.EACCES, errno.EPERM):
        raise PermissionError(error.errno, str(error)) from error
    return ExecResult(False, NOT_STARTED, "", f"{error}\n")

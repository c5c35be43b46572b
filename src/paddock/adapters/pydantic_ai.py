"""Paddock as a workspace of Pydantic AI.

    from pydantic_ai import Agent
    from paddock.adapters.pydantic_ai import Paddock

    agent = Agent(model, capabilities=[Paddock()])

Every run that continues from a message history attaches to the workspace of that history.
"""

from __future__ import annotations

import errno
import math
import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceBackend,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from paddock.adapters.outcome import NOT_STARTED, ending_text, told_file
from paddock.client.reference import BoxReference
from paddock.client.workspace import PROFILE, OpenWorkspace, Target, Workspace
from paddock.errors import NotFound, OutputTooLarge, RequestError, RunTimeout, SpawnError
from paddock.model.denial import DenialKind
from paddock.protocol.fs import MetadataResult

PROVIDER: Final = "paddock"
OUTPUT_BYTES: Final = 64 * 1024 * 1024
"""The most output of each stream of one command; a command that writes more is ended."""


class PaddockBackend:
    """One confined directory, with commands and native files; see `paddock.Workspace`.

    The first operation makes the directory, or attaches to it if there is a `ref`. `workspace.destroy`
    removes it, and `workspace.aclose` ends the connection; this class does neither.
    """

    def __init__(
        self,
        target: Target = None,
        *,
        ref: WorkspaceRef | None = None,
        directory: str | None = None,
        profile: str | Mapping[str, Any] = PROFILE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._ref = ref
        if ref is None:
            self.workspace = Workspace(target, directory=directory, profile=profile, env=env)
        else:
            self.workspace = Workspace.attach(BoxReference.decode(ref.id), target, env=env)

    @property
    def ref(self) -> WorkspaceRef | None:
        """Return the identity of the workspace; None until there is one."""
        reference = self.workspace.reference
        if self._ref is None and reference is not None:
            self._ref = WorkspaceRef(provider=PROVIDER, id=reference.encode())
        return self._ref

    async def working_dir(self) -> str:
        """Return the directory, without links."""
        there = await self._there()
        await self._alive(there)
        return there.directory

    # --- commands -----------------------------------------------------------

    async def run(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command to its end. What the sandbox denied stands at the end of stderr."""
        if isinstance(command, str) is not shell:
            raise TypeError("a command is a string with shell=True, and a list of arguments otherwise")
        if timeout is not None and not (math.isfinite(timeout) and timeout > 0):
            raise ValueError("timeout must be a positive finite number or None")
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        there = await self._there()
        try:
            done = await self.workspace.run(argv, timeout_s=timeout, output_limit_bytes=OUTPUT_BYTES, env=env)
        except RunTimeout as error:
            out, err = _text(error.stdout), _text(error.stderr)
            raise WorkspaceTimeoutError(str(error), stdout=out, stderr=err) from error
        except OutputTooLarge as error:
            out, err = _text(error.stdout), _text(error.stderr)
            raise WorkspaceOutputLimitError(str(error), limit=OUTPUT_BYTES, stdout=out, stderr=err) from error
        except SpawnError as error:
            await self._alive(there)
            return CommandResult(exit_code=NOT_STARTED, stdout="", stderr=f"{error}\n")
        except RequestError:
            await self._alive(there)
            raise
        await self._alive(there)
        notes = ending_text(done.ending, self.workspace)
        return CommandResult(
            exit_code=done.returncode, stdout=_text(done.stdout), stderr=_text(done.stderr) + notes
        )

    # --- files --------------------------------------------------------------

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        await self._there()
        with told_file(DenialKind.READ, path, self.workspace):
            return await self.workspace.read_bytes(_absolute(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace the content of a file, or create it with the directories above it."""
        await self._there()
        with told_file(DenialKind.WRITE, path, self.workspace):
            await self.workspace.write_bytes(_absolute(path), data)

    async def stat(self, path: str) -> FileEntry:
        """Return what a path leads to."""
        there = await self._there()
        return _entry(path, await there.files.metadata(_absolute(path)))

    async def list_dir(self, path: str) -> list[FileEntry]:
        """Return what is in a directory."""
        await self._there()
        with told_file(DenialKind.READ, path, self.workspace):
            found = await self.workspace.entries(_absolute(path))
        return [
            FileEntry(
                name=each.file_name,
                path=posixpath.join(path, each.file_name),
                is_dir=each.is_directory,
                size=None,
            )
            for each in found
        ]

    async def make_dir(self, path: str) -> None:
        """Make a directory with its parents; it may exist."""
        there = await self._there()
        with told_file(DenialKind.WRITE, path, self.workspace):
            await there.files.create_directory(_absolute(path))

    async def remove(self, path: str) -> None:
        """Remove a file, a link itself, or a directory with everything in it."""
        there = await self._there()
        wanted = posixpath.normpath(_absolute(path))
        if posixpath.commonpath([wanted, there.directory]) == wanted:
            raise ValueError(f"{path!r} holds the working directory, which stays")
        with told_file(DenialKind.WRITE, path, self.workspace):
            await there.files.remove(wanted, force=False)

    async def exists(self, path: str) -> bool:
        """Return whether a path leads to something."""
        return await (await self.workspace.path(_absolute(path))).exists()

    async def realpath(self, path: str) -> str:
        """Return the path without links and dots; leave parts that do not exist as they are written."""
        there = await self._there()
        try:
            return await there.files.canonicalize(_absolute(path))
        except NotFound:
            # No request returns the target of a dangling link.
            done = await self.workspace.run(["realpath", "-mz", "--", path])
        if done.returncode != 0:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.fsdecode(done.stdout.rstrip(b"\0"))

    # --- inside -------------------------------------------------------------

    async def _there(self) -> OpenWorkspace:
        try:
            return await self.workspace.open()
        except NotFound as error:
            raise WorkspaceUnavailableError(str(error)) from error

    async def _alive(self, there: OpenWorkspace) -> None:
        if not await there.box.path(there.directory).is_dir():
            raise WorkspaceUnavailableError(f"the workspace {there.directory!r} is gone")


@dataclass
class Paddock(AbstractCapability[Any]):
    """Gives runs of an agent a confined directory; the arguments are those of `paddock.Workspace`.

    The connections of a run end with it. A directory stays, because a later run may continue in it: remove it
    when you no longer need it.
    """

    target: Target = None
    directory: str | None = None
    profile: str | Mapping[str, Any] = PROFILE
    env: Mapping[str, str] | None = None
    _backends: list[PaddockBackend] = field(default_factory=list, init=False, repr=False)

    def get_workspace(self, ctx: RunContext[Any], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        """Return the backend of a run."""
        if ref is not None and ref.provider != PROVIDER:
            return None
        backend = PaddockBackend(
            self.target, ref=ref, directory=self.directory, profile=self.profile, env=self.env
        )
        self._backends.append(backend)
        return backend

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """End the connections of a run with it."""
        try:
            return await handler()
        finally:
            while self._backends:
                await self._backends.pop().workspace.aclose()


def _absolute(path: str) -> str:
    if not posixpath.isabs(path):
        raise ValueError(f"path must be absolute, got {path!r}")
    return path


def _entry(path: str, found: MetadataResult) -> FileEntry:
    name = posixpath.basename(path.rstrip("/"))
    return FileEntry(
        name=name, path=path, is_dir=found.is_directory, size=found.size if found.is_file else None
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")

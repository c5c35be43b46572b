"""Paddock as a sandbox of the OpenAI Agents SDK.

    from agents.run import RunConfig
    from agents.sandbox import SandboxRunConfig
    from paddock.adapters.openai_agents import PaddockSandboxClient

    config = RunConfig(sandbox=SandboxRunConfig(client=PaddockSandboxClient()))

Commands and terminals run in the sandbox; file operations use Paddock's own requests. The state of a session
is small and serialisable: `resume` attaches to its directory, in this process or another.
"""

from __future__ import annotations

import io
import posixpath
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, Final, Literal

from agents.sandbox import Manifest
from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_types import PtyExecUpdate
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.session.sandbox_session_state import SandboxSessionState
from agents.sandbox.snapshot import resolve_snapshot
from agents.sandbox.types import ExecResult

from paddock.adapters.openai_terminals import Terminals
from paddock.adapters.outcome import NOT_STARTED, ending_text, file_note
from paddock.agent.permission import Permissions, granted_profile
from paddock.client.reference import BoxReference
from paddock.client.workspace import PROFILE, SPOOL_BYTES, Target, Workspace
from paddock.errors import NotFound, PaddockError, RunTimeout, SpawnError
from paddock.model.denial import DenialKind

DEFAULT_ROOT: Final = "/workspace"
"""The root of a manifest that names no directory; its session gets a new one."""


class PaddockSandboxOptions(BaseSandboxClientOptions):
    """What confines the sessions of a client."""

    type: Literal["paddock"] = "paddock"
    profile: str | dict[str, Any] = PROFILE


class PaddockSandboxState(SandboxSessionState):
    """The location of a session, enough to attach to it again."""

    type: Literal["paddock"] = "paddock"
    reference: str


class PaddockSandboxSession(BaseSandboxSession):
    """One confined directory."""

    def __init__(self, state: PaddockSandboxState, workspace: Workspace) -> None:
        self.state = state
        self.workspace = workspace
        self._is_up = False
        self._terminals = Terminals(workspace)

    async def _after_start(self) -> None:
        self._is_up = True

    async def _after_shutdown(self) -> None:
        self._is_up = False
        await self.pty_terminate_all()

    async def running(self) -> bool:
        """Return whether the session was started and not shut down."""
        return self._is_up

    def supports_pty(self) -> bool:
        """Return True: sessions have terminals."""
        return True

    # --- commands -----------------------------------------------------------

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        argv = [str(word) for word in command]
        try:
            done = await self.workspace.run(argv, timeout_s=timeout)
        except RunTimeout as error:
            raise ExecTimeoutError(command=argv, timeout_s=timeout, cause=error) from error
        except SpawnError as error:
            return ExecResult(stdout=b"", stderr=f"{error}\n".encode(), exit_code=NOT_STARTED)
        except PaddockError as error:
            raise ExecTransportError(command=argv, cause=error) from error
        notes = ending_text(done.ending, self.workspace)
        return ExecResult(stdout=done.stdout, stderr=done.stderr + notes.encode(), exit_code=done.returncode)

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: Any = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a command and wait a moment for it."""
        argv = self._prepare_exec_command(*command, shell=shell, user=user)
        return await self._terminals.start(
            argv, tty=tty, yield_time_s=yield_time_s, limit_tokens=max_output_tokens
        )

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Write to a command that still runs, and wait a moment for what it says."""
        self._resolve_pty_session_entry(pty_processes=self._terminals.running, session_id=session_id)
        return await self._terminals.write(
            session_id, chars, yield_time_s=yield_time_s, limit_tokens=max_output_tokens
        )

    async def pty_terminate_all(self) -> None:
        """End all commands that still run."""
        self._terminals.end_all()

    # --- files --------------------------------------------------------------

    async def read(self, path: Path, *, user: Any = None) -> io.IOBase:
        """Return the content of a file."""
        wanted = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self.workspace.read_bytes(str(wanted)))
        except FileNotFoundError as error:
            raise WorkspaceReadNotFoundError(path=wanted, cause=error) from error
        except OSError as error:
            told = file_note(error, DenialKind.READ, str(wanted), self.workspace)
            raise WorkspaceArchiveReadError(path=wanted, context={"reason": told}, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: Any = None) -> None:
        """Replace the content of a file, or create it."""
        wanted = await self._validate_path_access(path, for_write=True)
        content = data.read()
        with self._told_write(wanted):
            await self.workspace.write_bytes(
                str(wanted), content.encode() if isinstance(content, str) else bytes(content)
            )

    async def mkdir(self, path: Path | str, *, parents: bool = False, user: Any = None) -> None:
        """Make a directory."""
        wanted = await self._validate_path_access(path, for_write=True)
        with self._told_write(wanted):
            await (await self.workspace.path(str(wanted))).mkdir(parents=parents, exist_ok=parents)

    async def rm(self, path: Path | str, *, recursive: bool = False, user: Any = None) -> None:
        """Remove a file, or a directory with everything in it."""
        wanted = await self._validate_path_access(path, for_write=True)
        there = await self.workspace.open()
        with self._told_write(wanted):
            await there.files.remove(str(wanted), recursive=recursive, force=recursive)

    async def _remove_workspace_entry_on_resume(self, path: Path) -> None:
        # The sandbox covers names that the profile keeps; they are no content.
        with suppress(WorkspaceArchiveWriteError):
            await self.rm(path, recursive=True)

    @contextmanager
    def _told_write(self, path: Path) -> Iterator[None]:
        """Give a failed change of a file the words for a model, in an error of the SDK."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            # The SDK has its own words for these.
            raise
        except OSError as error:
            told = file_note(error, DenialKind.WRITE, str(path), self.workspace)
            raise WorkspaceArchiveWriteError(path=path, message=told, cause=error) from error

    async def persist_workspace(self) -> io.IOBase:
        """Return the directory as a tar archive."""
        skipped = {path.as_posix() for path in self._persist_workspace_skip_relpaths()}
        archive = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115
        await self.workspace.export_tree(archive, leaves_out=skipped.__contains__)
        archive.seek(0)
        return archive

    async def hydrate_workspace(self, data: Any) -> None:
        """Unpack an archive into the directory."""
        await self.workspace.import_tree(data)


class PaddockSandboxClient(BaseSandboxClient[PaddockSandboxOptions]):
    """Makes sessions on this host, or on the server that `target` names."""

    backend_id = "paddock"
    supports_default_options = True

    def __init__(self, target: Target = None) -> None:
        self._target = target

    async def create(
        self, *, snapshot: Any = None, manifest: Manifest | None = None, options: Any = None
    ) -> Any:
        """Make a session; its directory is the manifest's root, or a new one."""
        chosen = options or PaddockSandboxOptions()
        wanted = manifest or Manifest()
        self._validate_manifest_for_create(wanted)
        directory = None if wanted.root == DEFAULT_ROOT else wanted.root
        workspace = Workspace(
            self._target, directory=directory, profile=granted_profile(chosen.profile, _grants(wanted))
        )
        there = await workspace.open()
        assert workspace.reference is not None
        number = uuid.uuid4()
        state = PaddockSandboxState(
            session_id=number,
            manifest=wanted.model_copy(update={"root": there.directory}, deep=True),
            snapshot=resolve_snapshot(snapshot, str(number)),
            reference=workspace.reference.encode(),
        )
        return self._wrap_session(PaddockSandboxSession(state, workspace))

    async def delete(self, session: Any) -> Any:
        """Remove the directory of a session, if it was made here, and end the connection."""
        await session._inner.workspace.__aexit__(None, None, None)
        return session

    async def resume(self, state: SandboxSessionState) -> Any:
        """Attach to the directory of a session, or to a new one filled from the snapshot if it no longer
        exists."""
        assert isinstance(state, PaddockSandboxState)
        reference = BoxReference.decode(state.reference)
        workspace = Workspace.attach(reference, self._target)
        try:
            await workspace.open()
        except NotFound:
            await workspace.aclose()
            options = PaddockSandboxOptions(profile=reference.profile or PROFILE)
            fresh = state.manifest.model_copy(update={"root": DEFAULT_ROOT}, deep=True)
            return await self.create(snapshot=state.snapshot, manifest=fresh, options=options)
        return self._wrap_session(PaddockSandboxSession(state, workspace))

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Return the state that another process has written."""
        return self._deserialize_session_state_payload(payload, PaddockSandboxState)


def _grants(manifest: Manifest) -> Permissions:
    grants = manifest.extra_path_grants
    return Permissions(
        read=tuple(posixpath.normpath(each.path) for each in grants if each.read_only),
        write=tuple(posixpath.normpath(each.path) for each in grants if not each.read_only),
    )

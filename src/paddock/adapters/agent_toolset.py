"""The tools of one of Anthropic's managed agents, for a worker in its own environment; see `anthropic`.

Nothing confines the SDK's own `bash` there, and its documentation leaves that to the system.
"""

from __future__ import annotations

import base64
import os
import posixpath
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any, Final

from anthropic import NotGiven
from anthropic.lib.tools import ToolError, beta_async_tool
from anthropic.lib.tools.agent_toolset import AgentToolContext
from anthropic.types import beta

from paddock.adapters.outcome import OUTPUT_BYTES, TIMEOUT_S, bounded, file_note
from paddock.adapters.shell import Shell
from paddock.adapters.text_file import FILE_BYTES, LISTED, TextFile, facts_of
from paddock.agent.permission import Permissions, granted_profile
from paddock.client.glob import GlobPattern
from paddock.client.workspace import PROFILE, Target, Workspace
from paddock.errors import CallRejected, RequestError
from paddock.model.denial import DenialKind

MEDIA: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
"""Files that models see unchanged."""

MEDIA_BYTES: Final = 3 * 1024 * 1024
"""The largest such file: the API takes 5 MiB in base64."""

SHOWN: Final = 200
"""How many names `glob` returns, the newest first."""


@asynccontextmanager
async def told_errors(workspace: Workspace, kind: DenialKind, path: str) -> AsyncIterator[None]:
    """Turn errors into ToolError, in words that a model can act on."""
    try:
        yield
    except CallRejected as error:
        raise ToolError(f"Error: {error.reason}") from error
    except OSError as error:
        raise ToolError(f"Error: {file_note(error, kind, path, workspace)}") from error
    except (RequestError, ValueError) as error:
        raise ToolError(f"Error: {error}") from error


async def run_bash(shell: Shell, command: str | None, restart: bool | None, timeout_s: float) -> str:
    """Run a command, or restart the shell. Raises ToolError with the command's output if it fails."""
    if restart:
        await shell.close()
        return "The shell is a new one."
    if not command:
        raise ToolError("Error: there is no command")
    done = await shell.run(command, timeout_s=timeout_s)
    if done.exit_code == 0:
        return done.text or "The command wrote nothing."
    status = "" if done.exit_code is None else f"\nThe command ended with status {done.exit_code}."
    raise ToolError(f"{done.text}{status}".lstrip("\n"))


def paddock_toolset(
    ctx: AgentToolContext, target: Target = None, *, profile: str | Mapping[str, Any] = PROFILE
) -> list[Any]:
    """Return `bash`, `read`, `write`, `edit`, `glob` and `grep` for one session of a worker.

    They are confined to the context's directory: its `allowed_roots` may be written too, and its
    `read_only_roots` may not. `target` is a server on this host. The worker ends them with the session.
    """
    kept = {os.path.realpath(root) for root in ctx.read_only_roots}
    grants = Permissions(
        read=tuple(sorted(kept)),
        write=tuple(path for root in ctx.allowed_roots if (path := os.path.realpath(root)) not in kept),
    )
    workspace = Workspace(
        target,
        directory=os.path.realpath(ctx.workdir),
        profile=granted_profile(profile, grants),
        env=ctx.env,
        inherits_env=ctx.env is None,
    )
    limit_bytes = FILE_BYTES if isinstance(ctx.max_file_bytes, NotGiven) else ctx.max_file_bytes
    session = _Session(workspace, limit_bytes)
    inputs = {
        "bash": beta.BetaManagedAgentsAgentToolset20260401BashInput,
        "read": beta.BetaManagedAgentsAgentToolset20260401ReadInput,
        "write": beta.BetaManagedAgentsAgentToolset20260401WriteInput,
        "edit": beta.BetaManagedAgentsAgentToolset20260401EditInput,
        "glob": beta.BetaManagedAgentsAgentToolset20260401GlobInput,
        "grep": beta.BetaManagedAgentsAgentToolset20260401GrepInput,
    }
    tools = [
        beta_async_tool(name=name, input_schema=schema)(getattr(session, name))
        for name, schema in inputs.items()
    ]
    tools[0].close = session.close
    return tools


class _Session:
    def __init__(self, workspace: Workspace, limit_bytes: int | None) -> None:
        self._workspace = workspace
        self._shell = Shell(workspace)
        self._limit_bytes = limit_bytes

    async def close(self) -> None:
        await self._shell.close()
        await self._workspace.aclose()

    async def bash(
        self, command: str | None = None, restart: bool | None = None, timeout_ms: int | None = None
    ) -> str:
        """Run a command in a persistent shell in a sandbox."""
        return await run_bash(self._shell, command, restart, timeout_ms / 1000 if timeout_ms else TIMEOUT_S)

    async def read(self, file_path: str, view_range: list[int] | None = None) -> Any:
        """Read a file."""
        async with told_errors(self._workspace, DenialKind.READ, file_path):
            file = TextFile(self._workspace, file_path)
            media = MEDIA.get(posixpath.splitext(file_path)[1].lower())
            if media is None:
                return "\n".join(await file.lines(view_range, self._limit_bytes))
            data = base64.standard_b64encode(await file.data(MEDIA_BYTES)).decode()
            kind = "document" if media == MEDIA[".pdf"] else "image"
            return [{"type": kind, "source": {"type": "base64", "media_type": media, "data": data}}]

    async def write(self, file_path: str, content: str) -> str:
        """Write a file, with the directories above it."""
        async with told_errors(self._workspace, DenialKind.WRITE, file_path):
            await TextFile(self._workspace, file_path).write(content)
            return f"{file_path} is written."

    async def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool | None = None
    ) -> str:
        """Replace a text in a file, quoted exactly."""
        async with told_errors(self._workspace, DenialKind.WRITE, file_path):
            file = TextFile(self._workspace, file_path)
            diff = await file.replace(old_string, new_string, everywhere=bool(replace_all))
            return f"{file_path} is changed:\n{diff}"

    async def glob(self, pattern: str, path: str | None = None) -> str:
        """List files that match a pattern, the newest first."""
        async with told_errors(self._workspace, DenialKind.READ, path or "."):
            wanted, top = GlobPattern(pattern), await self._workspace.path(path or "")
            tree = await self._workspace.walk(path or "")
            found = [file for file in tree.files if wanted.fits(PurePosixPath(file).relative_to(top).parts)]
            facts = await facts_of([top / file for file in found[:LISTED]])
            times = [(fact.modified_at_ms, file) for fact, file in zip(facts, found, strict=False) if fact]
            more = "\nThere is more." if tree.is_truncated or len(found) > SHOWN else ""
            newest = sorted(times, reverse=True)[:SHOWN]
            return "\n".join(file for _, file in newest) + more or "Nothing fits."

    async def grep(self, pattern: str, path: str | None = None) -> str:
        """Search files for a regular expression."""
        async with told_errors(self._workspace, DenialKind.READ, path or "."):
            found = await (await self._workspace.path(path or "")).search(pattern, regex=True, hidden=True)
            lines = (f"{each.path}:{each.line}:{each.text}" for each in found.matches)
            more = "\nThere is more." if found.is_truncated else ""
            return bounded("\n".join(lines).encode(), OUTPUT_BYTES)[0] + more or "Nothing fits."

"""Paddock as the tools of Anthropic's SDK: for its tool runner, and for workers of its managed agents.

    from paddock.adapters.anthropic import PaddockTools

    async with PaddockTools() as tools:
        runner = client.beta.messages.tool_runner(tools=tools, ...)

    worker = client.beta.environments.work.worker(tools=paddock_toolset, ...)

Commands run in one persistent shell in a sandbox; file tools use Paddock's own requests. `PaddockPermissions`
are hooks for the Claude Agent SDK; `paddock.adapters.claude_agent_sdk` has them without this SDK.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from anthropic.lib.tools import (
    BetaAsyncAbstractMemoryTool,
    BetaAsyncBuiltinFunctionTool,
    BetaBuiltinFunctionTool,
)

from paddock.adapters.agent_toolset import paddock_toolset, run_bash, told_errors
from paddock.adapters.claude_agent_sdk import PaddockPermissions
from paddock.adapters.outcome import TIMEOUT_S
from paddock.adapters.shell import Shell
from paddock.adapters.text_file import TextFile
from paddock.client.workspace import Target, Workspace
from paddock.errors import CallRejected
from paddock.model.denial import DenialKind
from paddock.sync import workspace as blocking

__all__ = [
    "PaddockBash",
    "PaddockEditor",
    "PaddockMemory",
    "PaddockPermissions",
    "PaddockTools",
    "SyncPaddockTools",
    "paddock_toolset",
]

MEMORIES: Final = "/memories"
"""The directory where models expect their memory."""


class PaddockBash(BetaAsyncBuiltinFunctionTool):
    """The tool `bash`: one shell in the sandbox, with its directory, variables and jobs."""

    def __init__(self, workspace: Workspace, timeout_s: float = TIMEOUT_S) -> None:
        self.shell = Shell(workspace)
        self._timeout_s = timeout_s

    def to_dict(self) -> Any:
        """Return what the API knows the tool by."""
        return {"type": "bash_20250124", "name": "bash"}

    async def call(self, input: Any) -> str:
        """Run a command, or restart the shell."""
        return await run_bash(self.shell, input.get("command"), input.get("restart"), self._timeout_s)


class PaddockEditor(BetaAsyncBuiltinFunctionTool):
    """The tool `str_replace_based_edit_tool`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def to_dict(self) -> Any:
        """Return what the API knows the tool by."""
        return {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}

    async def call(self, input: Any) -> str:
        """View or change a file."""
        command, path = str(input.get("command")), str(input.get("path", ""))
        kind = DenialKind.READ if command == "view" else DenialKind.WRITE
        async with told_errors(self._workspace, kind, path):
            return await _edit(TextFile(self._workspace, path), command, input)


async def _edit(file: TextFile, command: str, input: Mapping[str, Any]) -> str:
    match command:
        case "view":
            return await file.numbered(input.get("view_range"))
        case "create":
            await file.write(str(input.get("file_text", "")))
            return f"{file.name} is written."
        case "str_replace":
            diff = await file.replace(str(input.get("old_str", "")), str(input.get("new_str") or ""))
            return f"{file.name} is changed:\n{diff}"
        case "insert":
            text = input.get("insert_text", input.get("new_str", ""))
            await file.insert(int(input.get("insert_line", 0)), str(text))
            return f"{file.name} is changed."
        case _:
            raise CallRejected(f"there is no command {command!r}")


class PaddockMemory(BetaAsyncAbstractMemoryTool):
    """The tool `memory`, whose files are in a directory of the workspace."""

    def __init__(self, workspace: Workspace, directory: str = "memories") -> None:
        super().__init__()
        self._workspace = workspace
        self._directory = directory

    async def execute(self, command: Any) -> str:
        """Carry out a command."""
        name = str(getattr(command, "path", None) or getattr(command, "old_path", ""))
        kind = DenialKind.READ if command.command == "view" else DenialKind.WRITE
        async with told_errors(self._workspace, kind, name):
            return str(await super().execute(command))

    async def view(self, command: Any) -> str:
        """Show a file, or the contents of a directory."""
        if command.path.rstrip("/") == MEMORIES:
            await (await self._file(MEMORIES).path()).mkdir(parents=True, exist_ok=True)
        return await self._file(command.path).numbered(command.view_range)

    async def create(self, command: Any) -> str:
        """Write a new file."""
        file = self._file(command.path)
        if await (await file.path()).exists():
            raise CallRejected(f"{command.path} exists")
        return await _edit(file, "create", command.model_dump())

    async def str_replace(self, command: Any) -> str:
        """Replace a text in a file."""
        return await _edit(self._file(command.path), "str_replace", command.model_dump())

    async def insert(self, command: Any) -> str:
        """Insert text after a line of a file."""
        return await _edit(self._file(command.path), "insert", command.model_dump())

    async def delete(self, command: Any) -> str:
        """Remove a file or a directory."""
        await (await self._file(command.path, is_root_fit=False).path()).rmtree()
        return f"{command.path} is removed."

    async def rename(self, command: Any) -> str:
        """Rename a file or a directory."""
        old = await self._file(command.old_path, is_root_fit=False).path()
        new = await self._file(command.new_path, is_root_fit=False).path()
        if await new.exists():
            raise CallRejected(f"{command.new_path} exists")
        await new.parent.mkdir(parents=True, exist_ok=True)
        await old.rename(new)
        return f"{command.old_path} is {command.new_path} now."

    def _file(self, name: str, *, is_root_fit: bool = True) -> TextFile:
        path = posixpath.normpath(name)
        if path != MEMORIES and not path.startswith(f"{MEMORIES}/"):
            raise CallRejected(f"{name} is not below {MEMORIES}")
        if path == MEMORIES and not is_root_fit:
            raise CallRejected(f"{MEMORIES} itself stays as it is")
        return TextFile(self._workspace, f"{self._directory}{path.removeprefix(MEMORIES)}", name)


class PaddockTools:
    """The tools `bash`, editor and `memory` of one confined directory; use it with `async with`.

    The arguments are those of `paddock.Workspace`.
    """

    def __init__(self, target: Target = None, **options: Any) -> None:
        self._set_up(Workspace(target, **options))

    def _set_up(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.bash = PaddockBash(workspace)
        self.editor = PaddockEditor(workspace)
        self.memory = PaddockMemory(workspace)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.bash, self.editor, self.memory))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.bash.shell.close()
        await self.workspace.__aexit__(kind, error, trace)


class _Blocking(BetaBuiltinFunctionTool):
    def __init__(self, tool: BetaAsyncBuiltinFunctionTool, call: Callable[[Any], Any]) -> None:
        self._tool = tool
        self._call = call

    def to_dict(self) -> Any:
        return self._tool.to_dict()

    def call(self, input: object) -> Any:
        return self._call(self._tool.call(input))


class SyncPaddockTools:
    """The same tools for a client that blocks; use it with `with`."""

    def __init__(self, target: blocking.Target = None, **options: Any) -> None:
        self.workspace = blocking.Workspace(target, **options)
        self._tools = PaddockTools.__new__(PaddockTools)
        self._tools._set_up(self.workspace.inner)

    def __iter__(self) -> Iterator[Any]:
        return (_Blocking(tool, self.workspace.call) for tool in self._tools)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.workspace.call(self._tools.bash.shell.close())
        self.workspace.__exit__(None, None, None)

"""The tools for files, on the executor's own file operations, under the profile that commands have.

What the profile does not grant is asked for before it is tried; the operation itself runs confined in any
case, so that a link that leads elsewhere is refused by the executor.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from paddock.agent.exec_arguments import SandboxPermissions
from paddock.agent.executor import Executor, FileAccess
from paddock.agent.file_arguments import EditArguments, ListArguments, ReadArguments, SearchArguments
from paddock.agent.orchestrator import Attempt, Launch, Orchestrator
from paddock.agent.patch import CONTEXT, UPDATE, AddFile, DeleteFile, UpdateFile, parse_patch
from paddock.agent.patch_writer import PatchWriter
from paddock.agent.permission import Reach
from paddock.agent.proposal import Proposal
from paddock.agent.reply import Reply
from paddock.agent.tool import joined_path
from paddock.agent.truncation import cut_text
from paddock.errors import InvalidToolCall
from paddock.model.decision import Action, Decision

READ_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Size of a file that is read as a whole, to show some lines of it."""

_READING: Final = Decision(Action.ALLOW, ())


class FileTools:
    """The tools of one agent."""

    def __init__(
        self, executor: Executor, orchestrator: Orchestrator, reach: Reach, *, cwd: str, limit_tokens: int
    ) -> None:
        self._executor = executor
        self._orchestrator = orchestrator
        self._reach = reach
        self._cwd = cwd
        self._limit_tokens = limit_tokens

    async def read_file(self, call_id: str, arguments: ReadArguments) -> Reply:
        """Return lines of a file with their numbers."""
        path = self._path("read_file", arguments.path)

        async def read(files: FileAccess) -> str:
            size_bytes = (await files.metadata(path)).size
            if size_bytes > READ_LIMIT_BYTES:
                problem = f"{path} has {size_bytes} bytes; look at a part of it with exec_command"
                raise InvalidToolCall("read_file", problem)
            return _numbered(await files.read_file(path), arguments.offset, arguments.limit)

        return self._text(await self._run(call_id, "read_file", read, reads=(path,)))

    async def edit_file(self, call_id: str, arguments: EditArguments) -> Reply:
        """Replace a text; return the diff."""
        path = self._path("edit_file", arguments.path)

        async def edit(files: FileAccess) -> str:
            return await files.edit(path, arguments.old, arguments.new, arguments.count)

        diff = await self._run(
            call_id, "edit_file", edit, writes=(path,), patch=_replacement(path, arguments)
        )
        return self._text(diff or "Nothing has changed: the new text is the old one.")

    async def search_files(self, call_id: str, arguments: SearchArguments) -> Reply:
        """Return lines, or names, that match."""
        path = self._path("search_files", arguments.path)

        async def search(files: FileAccess) -> str:
            found = await files.search(
                path,
                arguments.pattern,
                kind=arguments.kind,
                regex=arguments.regex,
                case_sensitive=arguments.case_sensitive,
                hidden=arguments.hidden,
                max_matches=arguments.max_matches,
            )
            lines = [
                self._short(match.path) + (f":{match.line}: {match.text}" if match.line is not None else "")
                for match in found.matches
            ]
            lines += [f"[could not be read: {error}]" for error in found.errors]
            if found.is_truncated:
                lines.append("[there may be more]")
            return "\n".join(lines) or "Nothing matches."

        return self._text(await self._run(call_id, "search_files", search, reads=(path,)))

    async def list_files(self, call_id: str, arguments: ListArguments) -> Reply:
        """Return the names in a directory, directories with a slash."""
        path = self._path("list_files", arguments.path)

        async def list_(files: FileAccess) -> str:
            if not (await files.metadata(path)).is_directory:
                raise InvalidToolCall("list_files", f"{path} is not a directory")
            tree = await files.walk(path, max_depth=arguments.depth - 1, max_entries=arguments.max_entries)
            names = [self._short(name) for name in tree.files]
            names += [f"{self._short(name)}/" for name in tree.directories if name != path]
            lines = sorted(names)
            lines += [f"[{self._short(name)}: {why}]" for name, why in tree.errors]
            if tree.is_truncated:
                lines.append("[there is more]")
            return "\n".join(lines) or "The directory is empty."

        return self._text(await self._run(call_id, "list_files", list_, reads=(path,)))

    async def apply_patch(self, call_id: str, patch: str, workdir: str = "") -> Reply:
        """Change files as a patch says: all of it or, where that fails, nothing. Raises PatchError."""
        changes = await asyncio.to_thread(parse_patch, patch)
        base = self._path("apply_patch", workdir)
        writes: dict[str, None] = {}
        for change in changes:
            match change:
                case AddFile(path=path) | DeleteFile(path=path):
                    writes[posixpath.normpath(posixpath.join(base, path))] = None
                case UpdateFile(path=path, target=target):
                    writes[posixpath.normpath(posixpath.join(base, path))] = None
                    if target is not None:
                        writes[posixpath.normpath(posixpath.join(base, target))] = None

        async def apply(files: FileAccess) -> str:
            return await PatchWriter(files, base).apply(changes)

        return self._text(await self._run(call_id, "apply_patch", apply, writes=tuple(writes), patch=patch))

    # --- inside -------------------------------------------------------------

    async def _run(
        self,
        call_id: str,
        tool: str,
        work: Callable[[FileAccess], Awaitable[str]],
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        patch: str | None = None,
    ) -> str:
        lacking = self._reach.lacks(reads, writes)
        wish = SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS if lacking else SandboxPermissions.USE_DEFAULT
        proposal = Proposal(
            call_id=call_id,
            tool=tool,
            command=(tool, *reads, *writes),
            cwd=self._cwd,
            # To look at what the profile shows anyway needs no question.
            verdict=None if writes else _READING,
            wish=wish,
            permissions=lacking,
            is_replacing=True,
            patch=patch,
        )

        async def attempt(launch: Launch, _: int) -> Attempt[str]:
            return Attempt(await work(self._executor.files(launch.sandbox)))

        return (await self._orchestrator.run(proposal, attempt)).value

    def _path(self, tool: str, written: str) -> str:
        return posixpath.normpath(joined_path(tool, self._cwd, written))

    def _short(self, path: str) -> str:
        return path.removeprefix(f"{self._cwd}/")

    def _text(self, text: str) -> Reply:
        return Reply(cut_text(text, self._limit_tokens))


def _replacement(path: str, arguments: EditArguments) -> str:
    """Return an edit as a patch, for a question."""
    lines = [f"{UPDATE}{path}", f"{CONTEXT} {arguments.count} times" if arguments.count > 1 else CONTEXT]
    lines += [f"-{line}" for line in arguments.old.split("\n")]
    lines += [f"+{line}" for line in arguments.new.split("\n")]
    return "\n".join(lines)


def _numbered(data: bytes, offset: int, limit: int) -> str:
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "The file is empty."
    if offset > len(lines):
        raise InvalidToolCall("read_file", f"the file has {len(lines)} lines; there is no line {offset}")
    shown = lines[offset - 1 : offset - 1 + limit]
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(shown, offset))
    left = len(lines) - (offset - 1 + len(shown))
    return f"{text}\n[{left} more lines; go on with offset {offset + len(shown)}]" if left else text
